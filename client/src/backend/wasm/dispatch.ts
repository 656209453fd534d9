/** Runs the calls of a plan in order, in parts that are short enough for an abort to be heard. */
import { unstoppable } from "../../executor/event-loop.js";
import { type Clock, now } from "../../timing/clock.js";
import type { Arrivals } from "../../weights/arrivals.js";
import { edgeOfPart, MOST_PARTS } from "./call-parts.js";
import type { Crew } from "./crew.js";
import type { Task } from "./memory.js";
import type { Main } from "./program.js";

/** A part that is expected to take longer is cut in two. */
const PART_MS = 2.5;
/** Messages are looked at before a part that is expected to end later than this. */
const HEARD_MS = 4.5;
/**
 * Parts of a call that has not run yet. Engines start in baseline code, 5 to 11 times slower, and never
 * replace the code of a running call: short parts let the optimised code in.
 */
const FIRST_PARTS = 32;
/** Threads cut each part again. */
const FIRST_CREW_PARTS = 4;
/** A call of threads that takes longer than this would not be faster on one: sharing costs 2 to 10 us. */
const SURELY_SHARED_MS = 0.1;
/**
 * Runs in which a short call is tried without threads. The first run is baseline code, and any may be
 * disturbed, those with threads the likelier: after three of them threads were given up for most calls
 * of MobileNetV2 on a busy machine, which took half again as long.
 */
const ALONE_RUNS: readonly number[] = [2, 6];
const TRIED_RUNS = 10;
/**
 * The slower of both ways is tried again once in so many runs: threads more often, as they are slow
 * for as long as another program has their cores.
 */
const RETRIED_RUNS = { alone: 64, shared: 16 };
/**
 * A best time grows by this factor with each further run, so that an old one is forgotten: how fast
 * cores hand data to each other changes while a model runs. On a virtual machine short calls took
 * twice as long on two threads from one second to another.
 */
const FORGOTTEN = 1.05;

/**
 * Three numbers for each call of a run: when it started, in milliseconds from the run's start, how
 * many milliseconds it took, and on how many threads.
 */
export type CallTimes = Float64Array<ArrayBuffer>;

/**
 * Best times of a call of late in milliseconds, without threads and with them; infinite before it
 * has run that way. They are too long after the first run, which is baseline code.
 */
interface Learnt {
  alone: number;
  shared: number;
  runs: number;
}

export interface Ports {
  /** Lets messages in. */
  readonly breathe: () => Promise<void>;
  /** Tells which weights are in memory while they come; where it is left out, all of them are. */
  readonly arrivals?: Pick<Arrivals, "has" | "next"> | undefined;
  readonly clock?: Clock;
}

/** Makes the error that is thrown in place of the one that call `task` has thrown. */
export type Blame = (task: number, cause: unknown) => Error;

/** Threads that help. */
export type Hands = Pick<Crew, "threads" | "up" | "down" | "run">;

/** Is told of a call before and after it; an error that it throws ends the run. */
export interface Watch {
  before(): void;
  after(): void;
}

/** A call, and what was learnt of it. */
export interface Ready {
  readonly task: Task;
  readonly main: Main;
  readonly words: readonly number[];
  readonly learnt: Learnt;
  readonly watch?: Watch;
}

export const readyOf = (task: Task, mains: ReadonlyMap<string, Main>, scratch: number): Ready => ({
  task,
  main: mains.get(task.artifact) as Main,
  words: task.hasScratch ? [...task.words, scratch] : task.words,
  learnt: { alone: Infinity, shared: Infinity, runs: 0 },
});

/** Owns what was learnt of each call. */
export class Dispatcher {
  /** The calls in the order of the plan; one may be replaced between two runs. */
  readonly calls: Ready[];
  /**
   * The best time of each kernel so far. Many calls of a model have a kernel in common, and only
   * the first of them is cut before it is known how long they take. Kernels that fill their scratch
   * do that in each part, so that calls of ResNet-50 took twice as long in 32 parts as in two.
   */
  readonly #best = { alone: new Map<string, number>(), shared: new Map<string, number>() };
  readonly #bucketCalls: readonly Ready[];
  readonly #crew: Hands | null;
  readonly #blame: Blame;
  readonly #breathe: () => Promise<void>;
  readonly #arrivals: Ports["arrivals"];
  readonly #clock: Clock;

  constructor(
    tasks: readonly Task[],
    mains: ReadonlyMap<string, Main>,
    scratch: number,
    crew: Hands | null,
    blame: Blame,
    { breathe, arrivals, clock = now }: Ports,
    bucketTasks: readonly Task[] = [],
  ) {
    this.#bucketCalls = bucketTasks.map((task) => readyOf(task, mains, scratch));
    this.calls = tasks.map((task) => readyOf(task, mains, scratch));
    this.#crew = crew;
    this.#blame = blame;
    this.#breathe = breathe;
    this.#arrivals = arrivals;
    this.#clock = clock;
  }

  /** The calls as threads number them, those of buckets behind the others. */
  get all(): readonly Ready[] {
    return [...this.calls, ...this.#bucketCalls];
  }

  /**
   * Runs all calls, or those from one to another, on threads that the caller has woken; answers
   * when each ran, or null where `aborted` said to stop. Messages are let in meanwhile: always in
   * the first run, during which weights arrive, and in later ones unless `aborted` is
   * `unstoppable`. `instead` are calls of buckets by those in whose place they run. Throws as
   * `blame` says.
   */
  async run(
    aborted: () => boolean,
    from = 0,
    to = this.calls.length,
    instead?: ReadonlyMap<number, number>,
  ): Promise<CallTimes | null> {
    const times = new Float64Array(3 * to);
    const started = this.#clock();
    const whole = this.calls[to - 1]?.learnt.runs;
    let breath = whole && aborted === unstoppable ? Infinity : started;
    try {
      let before = started;
      for (let index = from; index < to; index++) {
        const ofBucket = instead?.get(index);
        const task = ofBucket === undefined ? index : this.calls.length + ofBucket;
        const call = (this.calls[task] ?? this.#bucketCalls[task - this.calls.length]) as Ready;
        while (this.#arrivals?.has(call.task.weights) === false) {
          await this.#arrivals.next();
          if (aborted()) return null;
          before = this.#clock();
        }
        const { learnt, watch } = call;
        const { artifact, extent } = call.task;
        const crew = this.#crewOf(call);
        const threads = crew?.threads ?? 1;
        const way = crew ? "shared" : "alone";
        const learns = learnt[way] === Infinity;
        const expected = learns ? (this.#best[way].get(artifact) ?? Infinity) : learnt[way];
        const unknown = crew ? FIRST_CREW_PARTS : FIRST_PARTS;
        const byTime = Number.isFinite(expected) ? expected / PART_MS : unknown;
        const parts = Math.ceil(Math.max(1, Math.min(byTime, extent / threads, MOST_PARTS)));
        const partMs = Math.min(PART_MS, expected / parts);
        watch?.before();
        // A first run has thousands of parts: arguments of their own for each would be garbage.
        const words = [...call.words, 0, 0];
        for (let part = 0; part < parts; part++) {
          if (breath < Infinity && this.#clock() - breath + partMs > HEARD_MS) {
            await this.#breathe();
            if (aborted()) return null;
            breath = this.#clock();
          }
          this.#runPart(call, task, crew, part, parts, words);
        }
        watch?.after();
        const after = this.#clock();
        const elapsedMs = after - before;
        times[3 * index] = before - started;
        times[3 * index + 1] = elapsedMs;
        times[3 * index + 2] = threads;
        learnt[way] = Math.min(FORGOTTEN * learnt[way], elapsedMs);
        if (learns) this.#best[way].set(artifact, Math.min(expected, elapsedMs));
        learnt.runs++;
        before = after;
      }
    } finally {
      this.#crew?.down();
    }
    return times;
  }

  #runPart(
    { task, main }: Ready,
    index: number,
    crew: Hands | null,
    part: number,
    of: number,
    words: number[],
  ) {
    try {
      if (crew) crew.run(index, part, of);
      else {
        // The part begins where the one before it ended.
        const last = words.length - 1;
        words[last - 1] = words[last] as number;
        words[last] = edgeOfPart(task.extent, part + 1, of);
        main(...words);
      }
    } catch (cause) {
      throw this.#blame(index, cause);
    }
  }

  /**
   * Returns the threads that help with a call, or null for none: both ways are tried, and then the
   * faster is taken.
   */
  #crewOf({ task, learnt: { alone, shared, runs } }: Ready): Hands | null {
    const faster =
      runs < TRIED_RUNS
        ? !ALONE_RUNS.includes(runs)
        : shared < alone
          ? runs % RETRIED_RUNS.alone > 0
          : runs % RETRIED_RUNS.shared === 0;
    return task.extent > 1 && (faster || shared > SURELY_SHARED_MS) ? this.#crew : null;
  }
}
