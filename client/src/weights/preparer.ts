/**
 * Carries out the schedule of a model's weights: the model's worker and, where the page is isolated,
 * workers beside it, which have its memory, fetch or read weights, hold them to their hashes and pack
 * them, while the model's worker compiles and computes.
 */
import type { Bringing, WasmExecutor } from "../backend/wasm/executor.js";
import type { Placement } from "../backend/wasm/memory.js";
import { instantiateAll, type Linked, type Main } from "../backend/wasm/program.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import type {
  Failure,
  Keeping,
  KeepingAnswer,
  LoadOrder,
  WeightsFrom,
} from "../executor/messages.js";
import type { Remote } from "../rpc.js";
import { addressOf, type PlanWire } from "../wire/model-answer.js";
import { ARRIVAL_WORDS, Arrivals, countOf, FETCHED, READABLE, TAKEN } from "./arrivals.js";
import { type FilesKind, graphFiles } from "./cache-files.js";
import {
  forget,
  type KeptModel,
  KeptReader,
  keptModel,
  readMs,
  severalRead,
  unreadable,
} from "./cache-reader.js";
import { written } from "./cache-writer.js";
import { type KeptWeight, type Place, type Planned, placesOf, type Ways } from "./cached-model.js";
import {
  bytesOfFile,
  fetchWeights,
  packCopies,
  packer,
  type Reading,
  receiveWeights,
  sinkOf,
  type WeightsFile,
} from "./loader.js";
import { nextOf, type Schedule, schedule, type Way, type WeightCosts } from "./schedule.js";
import { sourcesIn } from "./sources.js";
import type { Arrived, TakeBytes } from "./stream.js";
import { checksumIn } from "./vector-checksum.js";

const MB = 1e6;
/**
 * Milliseconds that a device is taken to need before it has measured them: for a megabyte that is
 * received, for one that is held to its hash and packed, for one that calls multiply with, and
 * until a worker has started (Chromium on one core of a Zen 5 and half of another).
 */
const ESTIMATE = { fetchMs: 0.5, prepareMs: 2.5, runMs: 1.5, startMs: 40 };
/** More threads wait for the storage and for each other. */
const MOST_BESIDE = 3;

/**
 * The order that a worker beside is given: weights of its own queue, and those it may take over.
 */
export interface PrepareOrder {
  readonly memory: WebAssembly.Memory;
  readonly placement: Pick<
    Placement,
    "weights" | "plain" | "rooms" | "packScratch" | "arrivals" | "totalBytes"
  >;
  readonly plan: PlanWire;
  readonly url: string;
  readonly thread: number;
  readonly receiver: number;
  readonly queues: Schedule["queues"];
  readonly kept: KeptModel | null;
}

/** The order first, and kernels once they are compiled, the ones that pack among them. */
export type ToPreparer =
  | { readonly type: "prepare"; readonly order: PrepareOrder }
  | { readonly type: "kernels"; readonly modules: readonly Linked[] }
  /** Ends a worker that is of no use. */
  | { readonly type: "end" };

export type FromPreparer =
  /** Something has come: so many bytes of the file, or null for a piece of a weight. */
  | { readonly type: "progress"; readonly bytes: number | null }
  | { readonly type: "prepared" }
  | { readonly type: "failed"; readonly failure: Failure };

/** The part of a worker's interface that preparation uses. */
export type Preparer = Remote<ToPreparer, FromPreparer>;

/**
 * Prepares weights in a worker beside: they may be on their way before there is an order for them.
 */
export interface Preparing {
  begin(from: WeightsFrom, post: (message: FromPreparer) => void): Begun;
  prepare(
    order: PrepareOrder,
    modules: Promise<readonly Linked[]>,
    post: (message: FromPreparer) => void,
    begun: Begun,
  ): Promise<void>;
}

export const preparing = (stored: Reading): Preparing => ({
  begin: (from, post) =>
    from.type === "file"
      ? { received: receive(from.file, post, stored) }
      : { reader: KeptReader.open(from.kept) },
  prepare: (order, modules, post, begun) => prepare(order, modules, post, stored, begun),
});

/** The work that a thread has begun before it has its order. */
export interface Begun {
  readonly received?: Received;
  /** Browsers take 10 to 80 ms to open a file. */
  readonly reader?: Promise<KeptReader | null>;
}

/** A worker that was started by the page, at the other end of a port. It is the page that hears its errors. */
const preparerAt = (port: MessagePort): Preparer =>
  Object.assign(port, { onerror: null, terminate: () => port.postMessage({ type: "end" }) });

/** All weights, on their way before there is a memory. */
export interface Received {
  /** Says where they go. */
  readonly into: (sink: Promise<TakeBytes>) => void;
  /** Rejects with KernelZooError: network, artifact. */
  readonly done: Promise<void>;
}

/** Begins to fetch: the first chunks arrive, and are held to their hashes, meanwhile. */
function receive(
  file: WeightsFile,
  post: (message: FromPreparer) => void,
  stored: Reading,
): Received {
  let into: Received["into"] = () => undefined;
  const sink = new Promise<TakeBytes>((resolve) => (into = resolve));
  const chunk = (bytes: number): void => post({ type: "progress", bytes });
  const done = receiveWeights(file, sink, { chunk }, stored);
  done.catch(() => undefined); // It is awaited when the order has come.
  return { into, done };
}

/**
 * A thread's part of a schedule: it fetches, where it is the receiver, and reads weights of its queue,
 * then of the longest one. Rejects with KernelZooError: network, artifact.
 */
async function prepareAs(
  order: PrepareOrder,
  mains: Promise<ReadonlyMap<string, Main>>,
  arrivals: Arrivals,
  arrived: Arrived,
  stored: Reading,
  { received, reader }: Begun,
  rest?: () => Promise<void>,
): Promise<void> {
  const { kept, receiver, thread } = order;
  received?.into(sinkOf(order, mains, arrivals));
  const fetching = () => received?.done ?? fetchWeights(order, mains, arrivals, arrived, stored);
  const fetched = thread === receiver ? fetching() : undefined;
  const opened = reader ?? (kept && KeptReader.open(kept));
  const read = async (): Promise<void> => {
    const file = await opened;
    try {
      if (file && kept) await readKept(file, order, kept, mains, arrivals, arrived, rest);
    } finally {
      file?.close();
    }
  };
  await Promise.all([fetched, read()]);
}

async function readKept(
  reader: KeptReader,
  { memory, placement, plan, thread, receiver, queues }: PrepareOrder,
  kept: KeptModel,
  mains: Promise<ReadonlyMap<string, Main>>,
  arrivals: Arrivals,
  { piece }: Arrived,
  rest?: () => Promise<void>,
): Promise<void> {
  const places = placesOf(plan, placement);
  const sum = checksumIn(memory);
  const left = (weight: number): number => {
    const { plain = true, bytes = 0 } = kept.weights[weight] ?? {};
    const mine = thread === receiver || !(plain && places[weight]?.staged);
    return mine && arrivals.state(weight) === READABLE ? bytes : 0;
  };
  for (;;) {
    const weight = nextOf(queues, thread, left);
    if (weight === undefined) return;
    const word = ARRIVAL_WORDS * weight;
    const state = Atomics.compareExchange(arrivals.words, word, READABLE, TAKEN);
    if (state !== READABLE) continue;
    const own = kept.weights[weight] as NonNullable<KeptModel["weights"][number]>;
    const { copies, address, plain } = places[weight] as Place;
    const target = new Uint8Array(memory.buffer, own.plain ? plain : address, own.bytes);
    if (!(await reader.read(own, target, sum, rest))) {
      // This weight is fetched in the end.
      Atomics.store(arrivals.words, word, FETCHED);
      continue;
    }
    const pack = own.plain ? packer(placement, await mains) : null;
    arrivals.put(weight, pack === null ? 0 : packCopies(copies, plain, pack));
    piece?.();
  }
}

/** Lets messages in, and resolves when no run computes on this thread: there, runs have priority. */
async function rested(arrivals: Arrivals, breathe: () => Promise<void>): Promise<void> {
  await breathe();
  while (arrivals.computing && !arrivals.waiting) {
    await new Promise<void>((resolve) => {
      arrivals.onrest = resolve;
    });
  }
}

/** Carries an order out, in a worker beside, which has nothing left to do when this resolves. */
export async function prepare(
  order: PrepareOrder,
  modules: Promise<readonly Linked[]>,
  post: (message: FromPreparer) => void,
  stored: Reading,
  begun: Begun,
): Promise<void> {
  const { memory, placement, plan } = order;
  const arrivals = new Arrivals(memory, placement.arrivals, plan.weights.length);
  const mains = modules.then((linked) => instantiateAll(linked, memory));
  const arrived: Arrived = {
    chunk: (bytes) => post({ type: "progress", bytes }),
    piece: () => order.kept && post({ type: "progress", bytes: null }),
  };
  await prepareAs(order, mains, arrivals, arrived, stored, begun);
  post({ type: "prepared" });
}

/** Has a worker do its part; it closes itself. Rejects with what it says; run where it does not start. */
export async function preparedBeside(
  worker: Preparer,
  order: PrepareOrder,
  modules: Promise<readonly Linked[]>,
  arrivals: Arrivals,
  arrived: Arrived,
): Promise<void> {
  try {
    return await new Promise<void>((resolve, reject) => {
      worker.onmessage = ({ data }) => {
        if (data.type === "failed") {
          return reject(new KernelZooError(data.failure.stage, data.failure.message));
        }
        arrivals.heard();
        if (data.type === "prepared") resolve();
        else if (data.bytes !== null) arrived.chunk(data.bytes);
        else arrived.piece?.();
      };
      worker.onerror = ({ message }) => reject(new KernelZooError("run", message));
      worker.postMessage({ type: "prepare", order });
      modules.then((linked) => worker.postMessage({ type: "kernels", modules: linked }), reject);
    });
  } catch (thrown) {
    worker.terminate();
    throw thrown;
  }
}

/** Estimates costs before weights have places: all are fetched, and nothing was measured. */
export function firstCosts({ weights, calls, tensors }: PlanWire, beside: number): WeightCosts {
  const size = (index: number): number => (weights[index]?.bytes ?? 0) / MB;
  return {
    weights: weights.map(({ bytes, storage }) => {
      const fetchMs = ((storage?.bytes ?? bytes) / MB) * ESTIMATE.fetchMs;
      return [{ fetchMs, prepareMs: (bytes / MB) * ESTIMATE.prepareMs, receiver: true }];
    }),
    calls: calls.map(({ tensors: used }) => {
      const read = used.flatMap((tensor) => tensors[tensor]?.weight ?? []);
      return {
        weights: Math.max(0, ...read.map((weight) => weight + 1)),
        runMs: read.reduce((sum, weight) => sum + size(weight), 0) * ESTIMATE.runMs,
      };
    }),
    beside: Math.min(1, beside),
    startMs: ESTIMATE.startMs,
  };
}

/** Returns the costs of kept weights: each is read as calls want it, or read plain and packed. */
export function keptCosts(
  places: readonly Place[],
  first: WeightCosts,
  { readMs, packMs, runMs }: Pick<KeptModel["costs"], "readMs" | "packMs" | "runMs">,
  beside: number,
): WeightCosts {
  const reading = (bytes: number): number => (bytes / 2 ** 20) * readMs;
  return {
    weights: places.map(({ bytes, plainBytes, staged, keptPlain }, i): Way[] => {
      const packed = { fetchMs: 0, prepareMs: reading(bytes), receiver: false };
      const ms = packMs[i] ?? 0;
      if (ms === 0 || !keptPlain) return [packed];
      return [packed, { fetchMs: 0, prepareMs: reading(plainBytes) + ms, receiver: staged }];
    }),
    calls: first.calls.map((call, i) => ({ ...call, runMs: runMs[i] || call.runMs })),
    beside,
    startMs: ESTIMATE.startMs,
  };
}

/** Bytes of the file before a weight, as it is fetched; all of it for none. */
function bytesBefore(plan: PlanWire, index: number): number {
  const { storage, offset } = plan.weights[index] ?? {};
  return Math.min(bytesOfFile(plan), storage?.offset ?? offset ?? Number.POSITIVE_INFINITY);
}

export interface PreparationPorts {
  /** Starts a worker beside; null where it cannot share memory. */
  readonly spawn: (() => Preparer) | null;
  readonly stored: Reading;
  /**
   * The port of a worker that the page has started; it receives all weights where none are kept.
   */
  readonly given?: MessagePort | undefined;
}

/** Owns the schedule of one model and the workers that help with it. */
export class Preparation {
  readonly #order: LoadOrder;
  readonly #ports: PreparationPorts;
  readonly #beside: number;
  /** Workers that may read kept weights beside this thread. */
  readonly #readers: number;
  readonly #early: Preparer | null;
  readonly #begun: Begun;
  #first: Schedule | null = null;
  #kept: KeptModel | null = null;

  constructor(order: LoadOrder, ports: PreparationPorts) {
    this.#order = order;
    this.#ports = ports;
    const cores = navigator.hardwareConcurrency || 2;
    this.#beside = ports.spawn === null ? 0 : Math.max(1, Math.min(MOST_BESIDE, cores - 1));
    this.#readers = severalRead() ? this.#beside : 0;
    // These start while everything is given a place.
    const { graph } = order;
    this.#begun = graph && graph.weights.length > 0 ? { reader: KeptReader.open(graph) } : {};
    const isWorkShared = () => (graph ? this.#asKept(graph) : this.#fetched().receiver > 0);
    const started = () => (isWorkShared() ? (ports.spawn?.() ?? null) : null);
    this.#early = ports.given ? preparerAt(ports.given) : started();
  }

  /**
   * Returns the schedule where nothing is kept. It takes 5 to 20 ms for 160 weights, as this code
   * runs once.
   */
  #fetched(): Pick<Schedule, "receiver" | "queues"> {
    const { plan } = this.#order.answer;
    // That worker has begun to receive them all.
    if (this.#ports.given) return { receiver: 1, queues: [[], [...plan.weights.keys()]] };
    this.#first ??= schedule(firstCosts(plan, this.#beside));
    return this.#first;
  }

  /** Returns whether as many threads may read now as those for which a schedule was kept. */
  #asKept({ queues }: Planned): boolean {
    return queues.length === this.#readers + 1;
  }

  /**
   * Rejects with KernelZooError: network, artifact; run where a worker does not start; storage for a
   * graph that is opened by its key and is not whole.
   */
  readonly bring = async (
    { memory, placement, arrivals, compiled }: Bringing,
    arrived: Arrived,
  ): Promise<void> => {
    const { spawn, stored } = this.#ports;
    const { answer, origin, graph, replaced } = this.#order;
    const { plan } = answer;
    const progress: Arrived = {
      chunk: arrived.chunk,
      piece: () => {
        arrived.piece?.();
        if (this.#kept !== null)
          arrived.chunk(bytesBefore(plan, countOf(arrivals, plan.weights.length)));
      },
    };
    const mains = compiled.then((kernels) => kernels.mains);
    const modules = compiled.then((kernels) => kernels.modules);
    const kept = graph && keptModel(graph, placesOf(plan, placement));
    this.#kept = kept;
    // A kernel that replaces a wrong one comes from the network, and so do its weights.
    const alone = graph?.modules != null && replaced.length === 0;
    if (alone && kept?.weights.includes(null)) throw unreadable(answer.name);
    for (const [weight, source] of (kept?.weights ?? []).entries()) {
      if (source !== null) arrivals.words[ARRIVAL_WORDS * weight] = READABLE;
    }
    const { receiver, queues } = this.#scheduled(kept);
    const parts = queues.map((_, thread): PrepareOrder => {
      const { weights, plain, rooms, packScratch, arrivals, totalBytes } = placement;
      const places = { weights, plain, rooms, packScratch, arrivals, totalBytes };
      const url = addressOf(answer.weights.url, origin).href;
      return { memory, placement: places, plan, url, thread, receiver, queues, kept };
    });
    const [own, ...others] = parts as [PrepareOrder, ...PrepareOrder[]];
    const breathe = breathing();
    let early = this.#early;
    await Promise.all([
      prepareAs(own, mains, arrivals, progress, stored, this.#begun, () =>
        rested(arrivals, breathe),
      ),
      ...others.flatMap((part) => {
        if (part.thread !== receiver && queues[part.thread]?.length === 0) return [];
        const worker = early ?? (spawn as () => Preparer)();
        early = null;
        return [preparedBeside(worker, part, modules, arrivals, progress)];
      }),
    ]);
    early?.terminate();
    // These were kept, but could not be read or were not what was written: they are fetched.
    for (const weight of plan.weights.keys()) {
      if (arrivals.state(weight) === READABLE) arrivals.words[ARRIVAL_WORDS * weight] = FETCHED;
    }
    const lost = kept?.weights.some(
      (source, i) => source !== null && arrivals.state(i) === FETCHED,
    );
    if (kept !== null && lost) await forget(kept);
    if (alone && lost) throw unreadable(answer.name);
    await fetchWeights(own, mains, arrivals, progress, stored);
  };

  /**
   * Returns the schedule that was kept where as many threads may read now; else this thread reads
   * all. Where no weight is kept, it is that of weights that are fetched.
   */
  #scheduled(kept: KeptModel | null): Pick<Schedule, "receiver" | "queues"> {
    if (kept === null || !kept.weights.some((source) => source !== null)) return this.#fetched();
    const { queues } = kept;
    if (this.#asKept(kept)) return { queues, receiver: Math.min(1, this.#readers) };
    return { queues: [this.#order.answer.plan.weights.map((_, weight) => weight)], receiver: 0 };
  }

  async keep(engine: WasmExecutor, asked: Keeping): Promise<KeepingAnswer> {
    switch (asked.type) {
      case "ways":
        // A browser without room is told of that when weights are written.
        return this.#ways(engine, asked.files).then(
          (ways) => ({ ways }),
          () => ({}),
        );
      case "write":
        return this.#written(engine, asked).then(
          (weights) => ({ weights }),
          (thrown) => ({ failure: sentence(thrown) }),
        );
    }
  }

  async #written(
    { memory, placement, arrivals }: WasmExecutor,
    { files, name, plain }: Extract<Keeping, { type: "write" }>,
  ): Promise<readonly KeptWeight[]> {
    const breathe = breathing();
    return written(
      await (await graphFiles(files)).writer(name),
      placesOf(this.#order.answer.plan, placement),
      sourcesIn(memory, this.#order, plain),
      () => rested(arrivals, breathe),
      checksumIn(memory),
    );
  }

  /**
   * Decides, by the time that reading takes here, which weights are kept plain, and who prepares
   * them next time.
   */
  async #ways(
    { arrivals, dispatcher, memory, placement }: WasmExecutor,
    files: FilesKind,
  ): Promise<Ways> {
    const places = placesOf(this.#order.answer.plan, placement);
    const packMs = places.map((_, i) => {
      const packUs = arrivals.words[ARRIVAL_WORDS * i + 1] ?? 0;
      return packUs / 1000 || (this.#kept?.costs.packMs[i] ?? 0);
    });
    const runMs = dispatcher.calls.map(({ learnt }) => {
      const ms = Math.min(learnt.alone, learnt.shared);
      return Number.isFinite(ms) ? ms : 0;
    });
    const costs = { readMs: await readMs(files, memory), packMs, runMs };
    const first = firstCosts(this.#order.answer.plan, this.#beside);
    const { ways, queues } = schedule(keptCosts(places, first, costs, this.#readers));
    return { plain: ways.map((way) => way === 1), costs, queues };
  }
}
