/**
 * Decides who prepares which weights of a model, from which source and in which order, so that its
 * first run ends soon (NNV12, sections 3.1.3 and 3.3). Thread 0 runs the calls one after the other,
 * each as soon as its weights are in memory, and prepares while it would wait; the other threads
 * only prepare.
 *
 * Costs are milliseconds that this device measured; another module carries a schedule out.
 */

/**
 * A way to bring a weight into memory: the time that it takes of the one connection, and the time
 * of a thread after that.
 */
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

export interface WeightCosts {
  /** The ways of each weight, in the order of first use; one at least. */
  readonly weights: readonly (readonly Way[])[];
  readonly calls: readonly CallCosts[];
  /** Threads that may prepare beside thread 0, and the time until one of them begins. */
  readonly beside: number;
  readonly startMs: number;
}

/** Says which way each weight takes, and on which thread. The receiver is thread 0 or 1. */
export interface Assignment {
  readonly receiver: number;
  readonly ways: readonly number[];
  readonly threads: readonly number[];
}

export interface Schedule extends Assignment {
  /** The weights of each thread, in the order in which it prepares them. */
  readonly queues: readonly (readonly number[])[];
  /** The time at which the last call has run. */
  readonly endMs: number;
}

/** Assignments that are tried: all that matter for a small model, some tens of milliseconds for a large one. */
const TRIES = 3000;
/** Weights that are farther apart do not move together. */
const NEAR = 8;

/** No weight. */
const NONE = -1;

/** The rest of a thread's queue: of weights whose bytes are there, the first one comes first. */
class Queue {
  /** Weights that are fetched, and the others, whose bytes are there from the beginning. */
  readonly #fetched: Int32Array;
  readonly #kept: Int32Array;
  #fetchedEnd = 0;
  #keptEnd = 0;
  #nextFetched = 0;
  #nextKept = 0;

  constructor(weights: number) {
    this.#fetched = new Int32Array(weights);
    this.#kept = new Int32Array(weights);
  }

  clear(): void {
    this.#fetchedEnd = this.#keptEnd = this.#nextFetched = this.#nextKept = 0;
  }

  add(weight: number, fetched: boolean): void {
    if (fetched) this.#fetched[this.#fetchedEnd++] = weight;
    else this.#kept[this.#keptEnd++] = weight;
  }

  /** Takes the next weight off the queue; `NONE` where nothing is there. */
  next(nowMs: number, thereMs: Float64Array): number {
    const fetched = this.#thereMs(thereMs) <= nowMs ? this.#first : NONE;
    const kept = this.#nextKept < this.#keptEnd ? (this.#kept[this.#nextKept] as number) : NONE;
    if (fetched !== NONE && !(kept !== NONE && kept < fetched)) {
      this.#nextFetched += 1;
      return fetched;
    }
    if (kept !== NONE) this.#nextKept += 1;
    return kept;
  }

  /** Returns when bytes of a weight come next; infinite for an empty queue. */
  thereMs(all: Float64Array): number {
    return this.#nextKept < this.#keptEnd ? 0 : this.#thereMs(all);
  }

  #thereMs(all: Float64Array): number {
    return this.#first === NONE ? Infinity : (all[this.#first] as number);
  }

  /** The next of those that are fetched. */
  get #first(): number {
    if (this.#nextFetched === this.#fetchedEnd) return NONE;
    return this.#fetched[this.#nextFetched] as number;
  }
}

/**
 * Tells what assignments take, one after the other in the same memory: memory of its own for each of
 * thousands of them would be given back late.
 */
export class Trials {
  readonly #costs: WeightCosts;
  readonly #queues: readonly Queue[];
  readonly #thereMs: Float64Array;
  readonly #prepareMs: Float64Array;
  readonly #doneMs: Float64Array;

  constructor(costs: WeightCosts) {
    const { length } = costs.weights;
    this.#costs = costs;
    this.#queues = Array.from({ length: costs.beside + 1 }, () => new Queue(length));
    this.#thereMs = new Float64Array(length);
    this.#prepareMs = new Float64Array(length);
    this.#doneMs = new Float64Array(length);
  }

  /**
   * Returns when the last call has run, and the sum of the times at which weights are in memory.
   */
  times(assignment: Assignment): { readonly endMs: number; readonly sumMs: number } {
    this.#assign(assignment);
    this.#prepareBeside();
    const endMs = this.#run();
    let sumMs = 0;
    for (const doneMs of this.#doneMs) sumMs += Number.isFinite(doneMs) ? doneMs : endMs;
    return { endMs, sumMs };
  }

  #assign({ receiver, ways, threads }: Assignment): void {
    const { weights, startMs } = this.#costs;
    for (const queue of this.#queues) queue.clear();
    let fetchedMs = receiver > 0 ? startMs : 0;
    for (let weight = 0; weight < weights.length; weight++) {
      const way = weights[weight]?.[ways[weight] as number] as Way;
      fetchedMs += way.fetchMs;
      this.#thereMs[weight] = way.fetchMs > 0 ? fetchedMs : 0;
      this.#prepareMs[weight] = way.prepareMs;
      this.#queues[threads[weight] as number]?.add(weight, way.fetchMs > 0);
    }
    this.#doneMs.fill(Infinity);
  }

  /** The other threads wait for nothing but bytes. */
  #prepareBeside(): void {
    for (let thread = 1; thread < this.#queues.length; thread++) {
      const queue = this.#queues[thread] as Queue;
      for (let now = this.#costs.startMs; ; ) {
        now = Math.max(now, queue.thereMs(this.#thereMs));
        const weight = queue.next(now, this.#thereMs);
        if (weight === NONE) break;
        this.#doneMs[weight] = now += this.#prepareMs[weight] as number;
      }
    }
  }

  /** Thread 0 runs what can run, and prepares while nothing can; answers when it is done. */
  #run(): number {
    const own = this.#queues[0] as Queue;
    let [now, known, readyMs] = [0, 0, 0];
    for (const { weights, runMs } of this.#costs.calls) {
      for (;;) {
        for (; known < weights && Number.isFinite(this.#doneMs[known]); known++) {
          readyMs = Math.max(readyMs, this.#doneMs[known] as number);
        }
        const until = known < weights ? Infinity : readyMs;
        if (until <= now) break;
        const weight = own.next(now, this.#thereMs);
        if (weight === NONE) now = Math.min(until, own.thereMs(this.#thereMs));
        else this.#doneMs[weight] = now += this.#prepareMs[weight] as number;
      }
      now += runMs;
    }
    return now;
  }
}

/** Threads that may prepare a weight in that way. */
function allowed(way: Way, receiver: number, beside: number): readonly number[] {
  return way.receiver ? [receiver] : Array.from({ length: beside + 1 }, (_, thread) => thread);
}

/**
 * Rules for the ways that a first assignment takes: all, those of the least work, or of the fewest
 * bytes.
 */
const FEWER: readonly ((way: Way) => number)[] = [
  () => 0,
  ({ prepareMs }) => prepareMs,
  ({ fetchMs, prepareMs }) => fetchMs + prepareMs / 1e3,
];

/**
 * Assigns weights, the first ones first: each to the thread on which it is in memory soonest, in a
 * way that is least by `of`.
 */
function greedy(costs: WeightCosts, receiver: number, of: (way: Way) => number): Assignment {
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
function improved(
  costs: WeightCosts,
  trials: Trials,
  first: Assignment,
  tries: { left: number },
): Improved {
  const { receiver } = first;
  const [ways, threads] = [[...first.ways], [...first.threads]];
  const options = costs.weights.map((all) =>
    all.flatMap((way, i) =>
      allowed(way, receiver, costs.beside).map((thread) => [i, thread] as const),
    ),
  );
  let best = trials.times(first);
  if (options.every(({ length }) => length === 1)) return { ...first, endMs: best.endMs };
  /** Gives weights other ways and threads; false where that is not sooner, and all is as before. */
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
    const times = trials.times({ receiver, ways, threads });
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

/**
 * Finds a schedule. Its end was within a tenth of the soonest wherever it was compared with all
 * schedules of a small model.
 */
export function schedule(costs: WeightCosts): Schedule {
  const receivers = costs.beside > 0 ? [0, 1] : [0];
  const tries = { left: TRIES };
  const trials = new Trials(costs);
  // Where each weight has one way, all of them are the same.
  const rules = costs.weights.every(({ length }) => length === 1) ? FEWER.slice(0, 1) : FEWER;
  const best = receivers
    .flatMap((receiver) => rules.map((of) => greedy(costs, receiver, of)))
    .map((first) => ({ first, endMs: trials.times(first).endMs }))
    .sort((a, b) => a.endMs - b.endMs)
    .map(({ first }) => improved(costs, trials, first, tries))
    .reduce((soonest, other) => (other.endMs < soonest.endMs ? other : soonest));
  const queues = Array.from({ length: costs.beside + 1 }, (_, thread) =>
    costs.weights.flatMap((_, weight) => (best.threads[weight] === thread ? [weight] : [])),
  );
  return { ...best, queues };
}

/**
 * Returns the weight that a thread prepares next: the first of its own queue, or, where that is
 * done, of the one with the most left (section 3.3, workload stealing). `left` is zero for what the
 * thread cannot prepare.
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
