/** A model in its memory: loads it, checks it, and runs it. */

import type { Crew, Hand } from "../backend/wasm/crew.js";
import { type CallTimes, Dispatcher, type Ports, type Ready } from "../backend/wasm/dispatch.js";
import { type Copy, type Placement, place } from "../backend/wasm/memory.js";
import { instantiateAll, type Linked, loadKernels, type Main } from "../backend/wasm/program.js";
import { warmUp } from "../backend/wasm/warm-up.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { productOf, viewOf } from "../engine/tensors.js";
import { Arrivals } from "../weights/arrivals.js";
import { bytesOfFile, fetchWeights, packCopies, packer, type Reading } from "../weights/loader.js";
import type { Arrived } from "../weights/stream.js";
import {
  addressOf,
  kernelsOf,
  type PortWire,
  targetOf,
  type WeightWire,
} from "../wire/model-answer.js";
import type { KernelWire } from "../wire/types.js";
import type { Stored } from "./golden-tensors.js";
import type { Loaded, LoadOrder, Progress } from "./messages.js";
import { checked, WrongKernel } from "./output-check.js";

const PAGE_BYTES = 65_536;

/** What starts threads. */
export interface CrewPorts {
  readonly start: typeof Crew.start;
  readonly spawn: () => Hand;
}

/** What calls run on; WebAssembly unless told. */
export interface Machine {
  /** Throws KernelZooError (memory). */
  memory(bytes: number): WebAssembly.Memory;
  mains(memory: WebAssembly.Memory): ReadonlyMap<string, Main>;
}

export interface EnginePorts extends Ports {
  readonly machine?: Machine;
  readonly progress: (progress: Progress) => void;
  /**
   * Told by an engine on the GPU before a run ends. One on wasm tells nobody: that took the thread
   * which computes 0.1 ms, and outputs were in the page no earlier.
   */
  readonly soon?: () => void;
  /** Null where threads cannot share memory, or none is wanted. */
  readonly threads: CrewPorts | null;
  /** Brings weights into memory; this thread fetches them all unless told. */
  readonly bring?: Bring;
  /** What reads weights in fewer bits, which the worker of plans that have none lacks. */
  readonly unpacking?: Reading;
  /** Bytes that the memory may grow by once the model is loaded; it does not unless told. */
  readonly spareBytes?: number;
}

/** What weights are brought to, and by which kernels. */
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

export interface RunResult {
  readonly outputs: readonly Stored[];
  /** When each call started, how long it took, and on how many threads. */
  readonly times: CallTimes;
}

function memoryOf(bytes: number, spareBytes = 0): WebAssembly.Memory {
  const initial = Math.ceil(bytes / PAGE_BYTES);
  const maximum = initial + Math.ceil(spareBytes / PAGE_BYTES);
  try {
    return new WebAssembly.Memory({ initial, maximum, shared: true });
  } catch (cause) {
    throw new KernelZooError(
      "memory",
      `The browser cannot give ${Math.ceil(bytes / 2 ** 20)} MiB. Dispose of some.`,
      cause,
    );
  }
}

/** Owns the memory of one model. It ends with its worker. */
export class Engine {
  readonly loaded: Loaded;
  /** Resolves when all weights are in memory. Rejects with KernelZooError: network, artifact. */
  readonly stored: Promise<void>;
  readonly order: LoadOrder;
  readonly memory: WebAssembly.Memory;
  readonly placement: Placement;
  readonly dispatcher: Dispatcher;
  /** Threads that help; null where there are none. */
  readonly crew: Crew | null;
  readonly arrivals: Arrivals;

  private constructor(
    order: LoadOrder,
    memory: WebAssembly.Memory,
    placement: Placement,
    dispatcher: Dispatcher,
    crew: Crew | null,
    arrivals: Arrivals,
    stored: Promise<void>,
    loaded: Loaded,
  ) {
    this.order = order;
    this.memory = memory;
    this.placement = placement;
    this.dispatcher = dispatcher;
    this.crew = crew;
    this.arrivals = arrivals;
    this.stored = stored;
    this.loaded = loaded;
  }

  /**
   * Loads kernels; weights are on their way then, and runs wait for those that they need. Throws
   * KernelZooError: network, manifest, artifact, validate, compile, memory.
   */
  static async load(order: LoadOrder, ports: EnginePorts): Promise<Engine> {
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
      ports.machine?.memory(placement.totalBytes) ??
      memoryOf(placement.totalBytes, ports.spareBytes);

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
      const mains = compiled.then((each) => each.mains);
      const wanted = { memory, placement, plan, url };
      return fetchWeights(wanted, mains, arrivals, arrived, ports.unpacking);
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
      packCopies(placement.weights[weight] as readonly Copy[], room, pack);
    };

    // 3. Threads.
    const { crew, reason } = await crewOf(threads, memory, placement, modules, mains, ports);
    const { tasks, scratch, totalBytes } = placement;
    const blame = (task: number, cause: unknown): WrongKernel => {
      const workload = plan.kernels[plan.calls[task]?.kernel ?? 0] as string;
      const stage = cause instanceof KernelZooError ? cause.stage : "run";
      const message = `The kernel trapped: ${sentence(cause)}`;
      // Not that of the plan's tasks: another may have been swapped in.
      const { artifact } = (dispatcher.calls[task] as Ready).task;
      return new WrongKernel({ workload, artifact, stage, message });
    };
    // What has arrived is taken before the next part of a call: else the connection would wait.
    const breathe = async (): Promise<void> => {
      let seen: number;
      do {
        seen = pieces;
        await ports.breathe();
      } while (seen < pieces);
    };
    const dispatcher = new Dispatcher(tasks, mains, scratch, crew, blame, {
      ...ports,
      breathe,
      arrivals,
    });
    return new Engine(order, memory, placement, dispatcher, crew, arrivals, stored, {
      memoryBytes: totalBytes,
      placement,
      threads: crew?.threads ?? 1,
      singleThreadReason: reason,
    });
  }

  /** Before the first run, while the page's inputs are on their way. */
  warmUp(): void {
    const { dispatcher, order } = this;
    const { answer } = order;
    if (targetOf(answer) === "wasm") {
      warmUp(dispatcher.calls, answer.plan.kernels.map(kernelsOf(order)));
    }
  }

  /**
   * Outputs for `feeds`, both in the plan's order; null where `aborted` said to stop. Throws
   * WrongKernel.
   */
  async run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    const { plan } = this.order.answer;
    // Threads take some 50 us to wake.
    this.crew?.up();
    for (const [i, port] of plan.inputs.entries()) this.#view(port).set(feeds[i] as Stored);
    const { arrivals } = this;
    arrivals.computing = true;
    const times = await this.dispatcher.run(aborted).finally(() => {
      arrivals.computing = false;
      arrivals.onrest?.();
    });
    if (times === null) return null;
    // An output may be a weight that no call reads.
    await this.stored;
    return { outputs: plan.outputs.map((port) => this.#view(port).slice() as Stored), times };
  }

  /** Copies a part of the memory. */
  read(address: number, into: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    into.set(new Uint8Array(this.memory.buffer, address, into.length));
    return into;
  }

  #view({ tensor, shape }: Pick<PortWire, "tensor" | "shape">) {
    const { plan } = this.order.answer;
    const { dtype, at = 0, weight } = plan.tensors[tensor] as (typeof plan.tensors)[number];
    const { activations, weights } = this.placement;
    const address = weight === undefined ? activations + at : (weights[weight]?.[0]?.address ?? 0);
    return viewOf(this.memory.buffer, dtype, address, productOf(shape));
  }

  /**
   * Compares the golden outputs; false where `aborted` said to stop. Throws KernelZooError: compare
   * where an output is wrong, network, artifact; WrongKernel.
   */
  check(ports: EnginePorts, aborted: () => boolean): Promise<boolean> {
    return checked(this.order, (feeds) => this.run(feeds, aborted), ports);
  }
}

async function modulesOf(
  { answer, origin, graph, replaced }: LoadOrder,
  kernels: readonly KernelWire[],
  { machine }: EnginePorts,
): Promise<readonly Linked[]> {
  const kept = replaced.length === 0 ? graph?.modules : null;
  return machine ? [] : (kept ?? loadKernels(answer, kernels, origin));
}

async function instantiated(
  linked: Promise<readonly Linked[]>,
  { answer }: LoadOrder,
  memory: WebAssembly.Memory,
  { machine, progress }: EnginePorts,
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
  { tasks, control, scratch, scratchStride }: Placement,
  modules: readonly Linked[],
  mains: ReadonlyMap<string, Main>,
  { threads: starting }: EnginePorts,
): Promise<Manned> {
  if (threads === 1 || starting === null) return { crew: null, reason: null };
  const start = { memory, control, modules, tasks, threads };
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
