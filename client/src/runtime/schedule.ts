/**
 * Who prepares which weights of a model, from which source and in which order, so that its first run
 * ends soon (NNV12, sections 3.1.3 and 3.3). Thread 0 runs the calls one after the other, each as soon
 * as its weights are in memory, and prepares while it would wait; the other threads only prepare.
 *
 * Costs are milliseconds that this device measured; another module carries a schedule out.
 */

/** How a weight comes into memory: what the one connection takes for it, and what a thread does then. */
export interface Way {
  readonly fetchMs: number;
  readonly prepareMs: number;
  /** It takes what only one thread has: the connection, or the room for weights that are packed. */
  readonly receiver: boolean;
}

export interface CallCosts {
  /** It reads so many of the first weights. */
  readonly weights: number;
  readonly runMs: number;
}

export interface Costs {
  /** The ways of each weight, in the order of first use; one at least. */
  readonly weights: readonly (readonly Way[])[];
  readonly calls: readonly CallCosts[];
  /** Threads that may prepare beside thread 0, and the time until one of them begins. */
  readonly beside: number;
  readonly startMs: number;
}

/** For each weight which of its ways, and on which thread. The receiver is thread 0 or 1. */
export interface Assignment {
  readonly receiver: number;
  readonly ways: readonly number[];
  readonly threads: readonly number[];
}

export interface Schedule extends Assignment {
  /** The weights of each thread, in the order in which it prepares them. */
  readonly queues: readonly (readonly number[])[];
  /** When the last call has run. */
  readonly endMs: number;
}

/** Assignments that are tried: all that matter for a small model, some tens of milliseconds for a large one. */
const TRIES = 3000;
/** Weights that are farther apart do not move together. */
const NEAR = 8;

/** What is left of a thread's queue: of weights whose bytes are there, the first one comes first. */
class Queue {
  /** Those that are fetched, and the others, whose bytes are there from the beginning. */
  readonly #fetched: number[] = [];
  readonly #kept: number[] = [];
  #nextFetched = 0;
  #nextKept = 0;

  add(weight: number, fetched: boolean): void {
    (fetched ? this.#fetched : this.#kept).push(weight);
  }

  next(nowMs: number, thereMs: Float64Array): number | undefined {
    const fetched = this.#fetched[this.#nextFetched];
    const kept = this.#kept[this.#nextKept];
    const there = fetched !== undefined && (thereMs[fetched] as number) <= nowMs;
    if (there && !(kept !== undefined && kept < fetched)) {
      this.#nextFetched += 1;
      return fetched;
    }
    if (kept !== undefined) this.#nextKept += 1;
    return kept;
  }

  /** When bytes of a weight come next; never for an empty queue. */
  thereMs(all: Float64Array): number {
    if (this.#nextKept < this.#kept.length) return 0;
    return all[this.#fetched[this.#nextFetched] ?? -1] ?? Number.POSITIVE_INFINITY;
  }
}

/** When the last call has run, and the sum of when weights are in memory. */
export function timesOf(costs: Costs, { receiver, ways, threads }: Assignment) {
  const queues = Array.from({ length: costs.beside + 1 }, () => new Queue());
  const thereMs = new Float64Array(costs.weights.length);
  const prepareMs = new Float64Array(costs.weights.length);
  let fetchedMs = receiver > 0 ? costs.startMs : 0;
  for (const [weight, all] of costs.weights.entries()) {
    const way = all[ways[weight] as number] as Way;
    if (way.fetchMs > 0) thereMs[weight] = fetchedMs += way.fetchMs;
    prepareMs[weight] = way.prepareMs;
    queues[threads[weight] as number]?.add(weight, way.fetchMs > 0);
  }
  const [own, ...others] = queues as [Queue, ...Queue[]];
  const doneMs = new Float64Array(costs.weights.length).fill(Number.POSITIVE_INFINITY);

  // 1. The other threads wait for nothing but bytes.
  for (const queue of others) {
    for (let now = costs.startMs; ; ) {
      now = Math.max(now, queue.thereMs(thereMs));
      const weight = queue.next(now, thereMs);
      if (weight === undefined) break;
      doneMs[weight] = now += prepareMs[weight] as number;
    }
  }

  // 2. Thread 0 runs what can run, and prepares while nothing can.
  let now = 0;
  let known = 0;
  let readyMs = 0;
  for (const { weights, runMs } of costs.calls) {
    for (;;) {
      for (; known < weights && Number.isFinite(doneMs[known]); known++) {
        readyMs = Math.max(readyMs, doneMs[known] as number);
      }
      const until = known < weights ? Number.POSITIVE_INFINITY : readyMs;
      if (until <= now) break;
      const weight = own.next(now, thereMs);
      if (weight === undefined) now = Math.min(until, own.thereMs(thereMs));
      else doneMs[weight] = now += prepareMs[weight] as number;
    }
    now += runMs;
  }
  let sumMs = 0;
  for (const each of doneMs) sumMs += Number.isFinite(each) ? each : now;
  return { endMs: now, sumMs };
}

/** Threads that may prepare a weight in that way. */
function allowed(way: Way, receiver: number, beside: number): readonly number[] {
  return way.receiver ? [receiver] : Array.from({ length: beside + 1 }, (_, thread) => thread);
}

/** Which ways a first assignment takes: all that there are, or those of the least work or bytes. */
const FEWER: readonly ((way: Way) => number)[] = [
  () => 0,
  ({ prepareMs }) => prepareMs,
  ({ fetchMs, prepareMs }) => fetchMs + prepareMs / 1e3,
];

/** Each weight, the first ones first, where it is in memory soonest, in a way that is least by `of`. */
function greedy(costs: Costs, receiver: number, of: (way: Way) => number): Assignment {
  const freeMs = Array.from({ length: costs.beside + 1 }, (_, i) => (i > 0 ? costs.startMs : 0));
  let fetchedMs = freeMs[receiver] as number;
  const picked = costs.weights.map((ways) => {
    const least = Math.min(...ways.map(of));
    let best = { way: 0, thread: receiver, doneMs: Number.POSITIVE_INFINITY };
    for (const [i, way] of ways.entries()) {
      if (of(way) > least) continue;
      const thereMs = way.fetchMs > 0 ? fetchedMs + way.fetchMs : 0;
      for (const thread of allowed(way, receiver, costs.beside)) {
        const doneMs = Math.max(freeMs[thread] as number, thereMs) + way.prepareMs;
        if (doneMs < best.doneMs) best = { way: i, thread, doneMs };
      }
    }
    fetchedMs += ways[best.way]?.fetchMs ?? 0;
    freeMs[best.thread] = best.doneMs;
    return best;
  });
  return {
    receiver,
    ways: picked.map(({ way }) => way),
    threads: picked.map(({ thread }) => thread),
  };
}

type Improved = Assignment & { readonly endMs: number };

/** Moves a weight, or two of them that are near each other, to better ways and threads while that helps. */
function improved(costs: Costs, first: Assignment, tries: { left: number }): Improved {
  const { receiver } = first;
  const [ways, threads] = [[...first.ways], [...first.threads]];
  const options = costs.weights.map((all) =>
    all.flatMap((way, i) =>
      allowed(way, receiver, costs.beside).map((thread) => [i, thread] as const),
    ),
  );
  let best = timesOf(costs, first);
  if (options.every(({ length }) => length === 1)) return { ...first, endMs: best.endMs };
  /** Whether it is sooner so; else it is as before. */
  const sooner = (
    moved: readonly number[],
    to: readonly (readonly [number, number])[],
  ): boolean => {
    if (tries.left-- <= 0) return false;
    const before = moved.map((weight) => [ways[weight], threads[weight]] as [number, number]);
    const put = (weight: number, [way, thread]: readonly [number, number]): void => {
      [ways[weight], threads[weight]] = [way, thread];
    };
    for (const [i, weight] of moved.entries()) put(weight, to[i] as readonly [number, number]);
    const times = timesOf(costs, { receiver, ways, threads });
    if ((times.endMs - best.endMs || times.sumMs - best.sumMs) < 0) {
      best = times;
      return true;
    }
    for (const [i, weight] of moved.entries()) put(weight, before[i] as [number, number]);
    return false;
  };
  for (let moved = true; moved && tries.left > 0; ) {
    moved = false;
    for (const [weight, own] of options.entries()) {
      for (const option of own) moved = sooner([weight], [option]) || moved;
    }
    if (moved) continue;
    for (const [weight, own] of options.entries()) {
      for (let other = weight + 1; other < Math.min(weight + NEAR, options.length); other++) {
        for (const option of own) {
          for (const theirs of options[other] as typeof own) {
            moved = sooner([weight, other], [option, theirs]) || moved;
          }
        }
      }
    }
  }
  return { receiver, ways, threads, endMs: best.endMs };
}

/** Within a tenth of the soonest end on what was tried against all schedules of small models. */
export function schedule(costs: Costs): Schedule {
  const receivers = costs.beside > 0 ? [0, 1] : [0];
  const tries = { left: TRIES };
  const best = receivers
    .flatMap((receiver) => FEWER.map((of) => greedy(costs, receiver, of)))
    .map((first) => ({ first, endMs: timesOf(costs, first).endMs }))
    .sort((a, b) => a.endMs - b.endMs)
    .map(({ first }) => improved(costs, first, tries))
    .reduce((soonest, each) => (each.endMs < soonest.endMs ? each : soonest));
  const queues = Array.from({ length: costs.beside + 1 }, (_, thread) =>
    costs.weights.flatMap((_, weight) => (best.threads[weight] === thread ? [weight] : [])),
  );
  return { ...best, queues };
}

/**
 * What a thread prepares next: the first of its own queue, or, where that is done, of the one with the
 * most left (section 3.3, workload stealing). `left` is zero for what the thread cannot prepare.
 */
export function nextOf(
  queues: readonly (readonly number[])[],
  thread: number,
  left: (weight: number) => number,
): number | undefined {
  const first = (queue: readonly number[] = []): number | undefined =>
    queue.find((weight) => left(weight) > 0);
  const own = first(queues[thread]);
  if (own !== undefined) return own;
  const all = queues.map((queue) => queue.reduce((sum, weight) => sum + left(weight), 0));
  return first(queues[all.indexOf(Math.max(...all))]);
}
