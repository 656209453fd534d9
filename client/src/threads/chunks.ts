/**
 * One run shared by threads. The control block is words of the shared memory. A ticket is a run's
 * number and its next chunk in one word, so that a thread that wakes late can take neither a chunk of
 * a run that is over nor one of the next by mistake: its exchange fails.
 *
 * Chunks are dealt in as many stretches as there are tickets. A thread begins with its own stretch and
 * goes on with those of others: in run after run it finds what it wrote before in its own cache.
 *
 * A run is over when all chunks are done, whoever did them; nobody waits for a thread that the
 * system has not woken.
 */

const GENERATION = 0;
const KERNEL = 1;
const DONE = 2;
const FAILED = 3;
/** A line of a cache, in words: threads that take tickets do not disturb each other. */
const LINE = 16;
const MOST_THREADS = 64;
export const CONTROL_WORDS = (1 + MOST_THREADS) * LINE;
const ticketOf = (stretch: number): number => (1 + stretch) * LINE;

const CHUNK_BITS = 10;
/** Also the chunk that no run has: the ticket is closed. */
const CLOSED = (1 << CHUNK_BITS) - 1;

/**
 * Chunks for each thread, where the outermost loop has as many iterations. A fixed split in two
 * was 0.9 to 1.2 times as fast as one thread while one of two cores was busy.
 */
const CHUNKS_PER_THREAD = 8;

/** Chunk i is [i·units, (i + 1)·units) of [0, extent), cut at the end; `count` of them. */
export interface Chunking {
  readonly extent: number;
  readonly units: number;
  readonly count: number;
}

/** Cuts a range into 8 to 16 chunks for each thread, or into `extent` where that is fewer. */
export function chunking(extent: number, threads: number): Chunking {
  const chunks = Math.min(threads * CHUNKS_PER_THREAD, CLOSED >> 1);
  const units = Math.max(1, Math.floor(extent / chunks));
  return { extent, units, count: Math.ceil(extent / units) };
}

/** The half-open range of one chunk. */
export function rangeOf({ extent, units }: Chunking, chunk: number): readonly [number, number] {
  return [chunk * units, Math.min((chunk + 1) * units, extent)];
}

export function controlView(memory: WebAssembly.Memory, address: number): Int32Array {
  return new Int32Array(memory.buffer, address, CONTROL_WORDS);
}

/** Opens a run of `kernel`, wakes the threads that wait and answers the run's number. */
export function openRun(control: Int32Array, kernel: number, stretches = 1): number {
  const generation = (Atomics.load(control, GENERATION) + 1) | 0;
  const tickets = generation << CHUNK_BITS;
  const deal = (ticket: number): void => {
    for (let i = 0; i < stretches; i++) Atomics.store(control, ticketOf(i), ticket);
  };
  deal(tickets | CLOSED);
  Atomics.store(control, KERNEL, kernel);
  Atomics.store(control, DONE, 0);
  Atomics.store(control, FAILED, 0);
  deal(tickets);
  Atomics.store(control, GENERATION, generation);
  Atomics.notify(control, GENERATION);
  return generation;
}

export const currentRun = (control: Int32Array): number => Atomics.load(control, GENERATION);

export const currentKernel = (control: Int32Array): number => Atomics.load(control, KERNEL);

/** Blocks a thread until another run than `seen` is opened; false after `limitMs`. */
export function awaitRun(control: Int32Array, seen: number, limitMs: number): boolean {
  return Atomics.wait(control, GENERATION, seen, limitMs) !== "timed-out";
}

/**
 * Takes the next chunk of the run that is open, of `own` stretch first, or undefined when there is
 * none left. The exchange succeeds only if that run is still open, and then `kernel` is what it was
 * opened with.
 */
export function takeChunk(
  control: Int32Array,
  countOf: (kernel: number) => number,
  own = 0,
  stretches = 1,
): { readonly kernel: number; readonly chunk: number } | undefined {
  for (let i = 0; i < stretches; ) {
    const stretch = (own + i) % stretches;
    const at = ticketOf(stretch);
    const ticket = Atomics.load(control, at);
    const kernel = currentKernel(control);
    const count = countOf(kernel);
    const edge = (end: number): number => Math.floor((count * end) / stretches);
    const chunk = edge(stretch) + (ticket & CLOSED);
    if (chunk >= edge(stretch + 1)) i++;
    else if (Atomics.compareExchange(control, at, ticket, ticket + 1) === ticket) {
      return { kernel, chunk };
    }
  }
  return undefined;
}

/** Counts a chunk as done and answers whether it was the last of `count`. */
export function finishChunk(control: Int32Array, count: number): boolean {
  const last = Atomics.add(control, DONE, 1) + 1 === count;
  if (last) Atomics.notify(control, DONE);
  return last;
}

/** Looks at the counter, some 100 us, before a thread is put to sleep: waking it takes as long as a chunk. */
const SPINS = 20_000;

/** Blocks the thread that opened a run until its `count` chunks are done; false after `limitMs`. */
export function awaitChunks(control: Int32Array, count: number, limitMs: number): boolean {
  for (let i = 0; i < SPINS; i++) if (Atomics.load(control, DONE) === count) return true;
  for (;;) {
    const done = Atomics.load(control, DONE);
    if (done === count) return true;
    if (Atomics.wait(control, DONE, done, limitMs) === "timed-out") return false;
  }
}

export const fail = (control: Int32Array): number => Atomics.store(control, FAILED, 1);

export const failed = (control: Int32Array): boolean => Atomics.load(control, FAILED) === 1;

/** Messages of the pool to its threads. */
export type ToThread =
  | { readonly type: "start"; readonly memory: WebAssembly.Memory; readonly control: number }
  | {
      readonly type: "bind";
      readonly kernel: number;
      readonly module: WebAssembly.Module;
      /** Addresses of tensors and of this thread's own scratch. */
      readonly words: readonly number[];
      readonly chunks: Chunking;
    }
  | { readonly type: "run"; readonly generation: number }
  | { readonly type: "forget"; readonly kernel: number };

/**
 * Messages of a thread to its pool. `done` comes once for each run, from the thread that finished
 * the last chunk.
 */
export type FromThread = { readonly type: "ready" } | { readonly type: "done" };
