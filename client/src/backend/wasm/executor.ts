/** Runs a plan on WebAssembly, or in a plain buffer in JavaScript: loads it, checks it, and runs it. */
import { KernelZooError, sentence } from "../../engine/error.js";
import { type BucketCall, bucketCalls, insteadFor } from "../../executor/bucket-calls.js";
import type { Executor, ExecutorPorts, RunResult } from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { LoadOrder } from "../../executor/messages.js";
import { spareOf, takeOutput, writeFeed } from "../../executor/open-places.js";
import { checked, WrongKernel } from "../../executor/output-check.js";
import { Arrivals } from "../../weights/arrivals.js";
import {
  bytesOfFile,
  fetchWeights,
  packCopies,
  packer,
  type Reading,
} from "../../weights/loader.js";
import type { Arrived } from "../../weights/stream.js";
import {
  addressOf,
  kernelsOf,
  type PortWire,
  targetOf,
  type WeightWire,
} from "../../wire/model-answer.js";
import type { KernelWire } from "../../wire/types.js";
import type { Crew, Hand } from "./crew.js";
import { Dispatcher, type Ready } from "./dispatch.js";
import { memoryOf, type Placement, place, type WeightCopy } from "./memory.js";
import { planCopy, portView } from "./plan-copy.js";
import { instantiateAll, type Linked, loadKernels, type Main } from "./program.js";
import { warmUp } from "./warm-up.js";

/** Starts the threads that help: `spawn` starts the worker of one. */
export interface CrewPorts {
  readonly start: typeof Crew.start;
  readonly spawn: () => Hand;
}

/** The memory and the kernels that calls run on; they are WebAssembly's unless told. */
export interface Machine {
  /** Throws KernelZooError (memory). */
  memory(bytes: number): WebAssembly.Memory;
  mains(memory: WebAssembly.Memory): ReadonlyMap<string, Main>;
}

export interface WasmPorts extends ExecutorPorts {
  readonly machine?: Machine;
  /** Null where threads cannot share memory, or none is wanted. */
  readonly threads: CrewPorts | null;
  /** Brings weights into memory; this thread fetches them all unless told. */
  readonly bring?: Bring;
  /** Reads weights in fewer bits; the worker of plans that have no such weights lacks it. */
  readonly unpacking?: Reading;
  /** Bytes that the memory may grow by once the model is loaded; it does not unless told. */
  readonly spareBytes?: number;
}

/** The memory that weights are brought to, and the kernels that pack them there. */
export interface Bringing {
  readonly memory: WebAssembly.Memory;
  readonly placement: Placement;
  readonly arrivals: Arrivals;
  readonly compiled: Promise<Compiled>;
}

/** Rejects with KernelZooError: network, artifact; run where a worker does not start. */
export type Bring = (wanted: Bringing, arrived: Arrived) => Promise<void>;

export interface Compiled {
  readonly modules: readonly Linked[];
  readonly mains: ReadonlyMap<string, Main>;
}

/** Runs a plan in one memory, which ends with its worker. */
export interface WasmExecutor extends Executor {
  readonly memory: WebAssembly.Memory;
  readonly placement: Placement;
  readonly dispatcher: Dispatcher;
  /** Threads that help; null where there are none. */
  readonly crew: Crew | null;
  readonly arrivals: Arrivals;
}

/**
 * Loads kernels; weights are on their way then, and runs wait for those that they need. Throws
 * KernelZooError: network, manifest, artifact, validate, compile, memory.
 */
export async function loadOnWasm(order: LoadOrder, ports: WasmPorts): Promise<WasmExecutor> {
  const { answer, origin } = order;
  const { plan } = answer;
  const kernels = plan.kernels.map(kernelsOf(order));

  // 1. Kernels begin to come, and everything is given a place meanwhile.
  const linked = modulesOf(order, kernels, ports);
  linked.catch(() => undefined); // It is awaited when there is a memory.
  const threads = ports.threads === null ? 1 : order.threads;
  const inOrder = order.graph === null && !plan.needs.includes("states");
  const placement = place(plan, kernelsOf(order), threads, inOrder);
  const memory =
    ports.machine?.memory(placement.totalBytes) ?? memoryOf(placement.totalBytes, ports.spareBytes);

  // 2. The first weights come, too: these wait for the kernels that pack them.
  const arrivals = new Arrivals(memory, placement.arrivals, plan.weights.length);
  let pieces = 0;
  const compiled = instantiated(linked, order, memory, ports);
  const total = bytesOfFile(plan);
  const arrived: Arrived = {
    chunk: (loaded) => ports.progress({ phase: "weights", loaded, total }),
    piece: () => void pieces++,
  };
  const fetching: Bring = (_, arrived) => {
    const url = addressOf(answer.weights.url, origin).href;
    const mains = compiled.then(({ mains }) => mains);
    const file = { memory, placement, plan, url };
    return fetchWeights(file, mains, arrivals, arrived, ports.unpacking);
  };
  const bring = ports.bring ?? fetching;
  const brought = bring({ memory, placement, arrivals, compiled }, arrived);
  const stored = Promise.all([brought, compiled]).then(() => arrivals.settled());
  stored.catch(() => undefined); // Those who await it see the rejection.
  const { modules, mains } = await compiled;
  const pack = packer(placement, mains);
  arrivals.onneed = (weight) => {
    const [room, from = 0] = [placement.rooms[weight], placement.plain[weight]];
    if (room === undefined) return;
    const { bytes } = plan.weights[weight] as WeightWire;
    new Uint8Array(memory.buffer).copyWithin(room, from, from + bytes);
    packCopies(placement.weights[weight] as readonly WeightCopy[], room, pack);
  };

  // 3. Threads.
  const { crew, reason } = await crewOf(threads, memory, placement, modules, mains, ports);
  const { tasks, bucketTasks, scratch, totalBytes } = placement;
  const bucketed = bucketCalls(plan);
  const blame = (task: number, cause: unknown): WrongKernel => {
    const { kernel } = [...plan.calls, ...bucketed][task] as BucketCall;
    const workload = plan.kernels[kernel] as string;
    const stage = cause instanceof KernelZooError ? cause.stage : "run";
    const message = `The kernel trapped: ${sentence(cause)}`;
    // The plan's task may name another artifact than the one that was swapped in.
    const { artifact } = (dispatcher.all[task] as Ready).task;
    return new WrongKernel({ workload, artifact, stage, message });
  };
  // Bytes that have arrived are taken before the next part of a call: else the connection waits.
  const breathe = async (): Promise<void> => {
    let seen: number;
    do {
      seen = pieces;
      await ports.breathe();
    } while (seen < pieces);
  };
  const heard = { ...ports, breathe, arrivals };
  const dispatcher = new Dispatcher(tasks, mains, scratch, crew, blame, heard, bucketTasks);

  // 4. Functions that run them.
  const view = (port: PortWire) => portView(plan, placement, memory, port);
  const run = async (
    feeds: readonly Stored[],
    aborted: () => boolean,
  ): Promise<RunResult | null> => {
    // Threads take some 50 us to wake.
    crew?.up();
    const spare = spareOf(plan, feeds);
    for (const [i, port] of plan.inputs.entries()) {
      writeFeed(port, feeds[i] as Stored, view(port), spare);
    }
    arrivals.computing = true;
    const ran = dispatcher.run(aborted, 0, tasks.length, insteadFor(plan, bucketed, feeds));
    const times = await ran.finally(() => {
      arrivals.computing = false;
      arrivals.onrest?.();
    });
    if (times === null) return null;
    // An output may be a weight that no call reads.
    await stored;
    return { outputs: plan.outputs.map((port) => takeOutput(port, view(port), spare)), times };
  };
  return {
    ...{ order, memory, placement, dispatcher, crew, arrivals, stored, run },
    loaded: {
      memoryBytes: totalBytes,
      placement,
      threads: crew?.threads ?? 1,
      singleThreadReason: reason,
    },
    /** Has kernels optimised before the first run, while the page's inputs are on their way. */
    warmUp() {
      if (targetOf(answer) === "wasm") warmUp(dispatcher.all, kernels);
    },
    read(address, into) {
      into.set(new Uint8Array(memory.buffer, address, into.length));
      return into;
    },
    check: (ports, aborted) => checked(order, (feeds) => run(feeds, aborted), ports),
    copy() {
      // Where memory may grow, kernels are swapped, of which a copy would not hear.
      const fixed = targetOf(answer) === "wasm" && ports.spareBytes === undefined;
      return fixed ? planCopy(modules, memory, placement) : undefined;
    },
  };
}

async function modulesOf(
  { answer, origin, graph, replaced }: LoadOrder,
  kernels: readonly KernelWire[],
  { machine }: WasmPorts,
): Promise<readonly Linked[]> {
  const kept = replaced.length === 0 ? graph?.modules : null;
  return machine ? [] : (kept ?? loadKernels(answer, kernels, origin));
}

async function instantiated(
  linked: Promise<readonly Linked[]>,
  { answer }: LoadOrder,
  memory: WebAssembly.Memory,
  { machine, progress }: WasmPorts,
): Promise<Compiled> {
  const total = answer.module?.size_bytes ?? 0;
  const modules = await linked;
  const mains = machine?.mains(memory) ?? instantiateAll(modules, memory);
  progress({ phase: "kernels", loaded: total, total });
  return { modules, mains };
}

interface Manned {
  readonly crew: Crew | null;
  readonly reason: string | null;
}

async function crewOf(
  threads: number,
  memory: WebAssembly.Memory,
  { tasks, bucketTasks, control, scratch, scratchStride }: Placement,
  modules: readonly Linked[],
  mains: ReadonlyMap<string, Main>,
  { threads: starting }: WasmPorts,
): Promise<Manned> {
  if (threads === 1 || starting === null) return { crew: null, reason: null };
  const start = { memory, control, modules, tasks: [...tasks, ...bucketTasks], threads };
  try {
    const crew = await starting.start(
      start,
      (i) => scratch + i * scratchStride,
      mains,
      starting.spawn,
    );
    return { crew, reason: null };
  } catch (thrown) {
    return { crew: null, reason: sentence(thrown) };
  }
}
