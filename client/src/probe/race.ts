/**
 * Rates of several loops, measured against each other until nothing more changes.
 *
 * Disturbances and baseline code only make a loop slower, so its rate is its best sample, and a
 * race goes on until everyone's best was seen twice and nobody has become faster for a while.
 * Rounds are interleaved: a busy moment costs everyone one sample, not one loop all of them.
 */
import type { Clock } from "../timing/clock.js";

/** `work` is that of one iteration. */
export interface Entrant {
  readonly work: number;
  /** Milliseconds of doing the work `count` times. */
  timed(count: number): number | Promise<number>;
}

/** Times what runs in this thread. */
export const onClock =
  (run: (count: number) => void, clock: Clock): Entrant["timed"] =>
  (count) => {
    const start = clock();
    run(count);
    return clock() - start;
  };

export interface RaceLimits {
  /** A sample lasts at least half of this. */
  readonly sampleMs: number;
  /** Two rates this close, as a ratio, are the same. */
  readonly sameWithin: number;
  /** Rounds without a faster sample that end the race; more while `rates` are in doubt. */
  readonly quietRounds: (rates: readonly number[]) => number;
  readonly limitMs: number;
}

/** Units in a nanosecond, in the order of the entrants. A race that ran out of time is open. */
export interface RaceStanding {
  readonly rates: readonly number[];
  readonly settled: boolean;
}

/** The page gets to run after this long. */
const LONGEST_STRETCH_MS = 8;
/** One iteration may read all of memory's working set. */
const FIRST_COUNT = 1;
const MOST_ITERATIONS = 2 ** 31;
/** One round is not enough: a disturbed first sample may hold a single iteration. */
const LEAST_ROUNDS = 2;

/** A sample of `count` iterations, or of twice as many as long as it is too short. */
export async function filledMs(
  entrant: Entrant,
  count: number,
  sampleMs: number,
): Promise<{ readonly count: number; readonly elapsedMs: number }> {
  for (let tried = count; ; tried *= 2) {
    const elapsedMs = await entrant.timed(tried);
    if (elapsedMs >= sampleMs / 2 || tried >= MOST_ITERATIONS) return { count: tried, elapsedMs };
  }
}

/** The two best samples of one entrant, and how many iterations fill a sample. */
class Runner {
  best = 0;
  #second = 0;
  #count = FIRST_COUNT;
  readonly #entrant: Entrant;

  constructor(entrant: Entrant) {
    this.#entrant = entrant;
  }

  confirmed(sameWithin: number): boolean {
    return this.#second > 0 && this.best <= sameWithin * this.#second;
  }

  /** Takes one sample and answers whether it is faster than all before. */
  async sample({ sampleMs, sameWithin }: RaceLimits): Promise<boolean> {
    const { count, elapsedMs } = await filledMs(this.#entrant, this.#count, sampleMs);
    this.#count = count;
    const rate = (this.#entrant.work * count) / (elapsedMs * 1e6);
    const faster = rate > sameWithin * this.best;
    if (rate > this.best) {
      this.#second = this.best;
      this.best = rate;
    } else this.#second = Math.max(this.#second, rate);
    return faster;
  }
}

/** Resolves in the next task; a nested timer would wait for 4 ms. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Lets the page run when `LONGEST_STRETCH_MS` have passed since the last time. */
export function breather(clock: Clock): () => Promise<void> {
  let last = clock();
  return async () => {
    if (clock() - last < LONGEST_STRETCH_MS) return;
    await nextTask();
    last = clock();
  };
}

export async function race(
  entrants: readonly Entrant[],
  limits: RaceLimits,
  clock: Clock,
): Promise<RaceStanding> {
  const runners = entrants.map((entrant) => new Runner(entrant));
  const rates = (): readonly number[] => runners.map(({ best }) => best);
  const breathe = breather(clock);
  const start = clock();
  const confirmed = (runner: Runner): boolean => runner.confirmed(limits.sameWithin);
  const late = (): boolean => clock() - start > limits.limitMs;
  for (
    let quiet = 0, rounds = 0;
    quiet < limits.quietRounds(rates()) || !runners.every(confirmed);
    rounds += 1
  ) {
    if (rounds >= LEAST_ROUNDS && late()) return { rates: rates(), settled: false };
    quiet += 1;
    for (const runner of runners) {
      if (await runner.sample(limits)) quiet = 0;
      await breathe();
    }
  }
  return { rates: rates(), settled: true };
}
