/**
 * Keeps the times of workloads in a model's own runs. A kernel that was faster than the one before,
 * alone and on one thread, may lose in its network, where threads share its calls and the caches
 * hold weights of others.
 */
import type { CallTimes } from "../backend/wasm/dispatch.js";
import type { DecoderWire, PlanWire } from "../wire/model-answer.js";

/** A workload takes the least of its times in so many runs. */
const RUNS = 8;
/**
 * A kernel that is slower by this factor in runs is taken back; a smaller difference may be noise.
 */
const SLOWER = 1.03;
/** It has to be slower by this, too, as clocks of pages that are not isolated step by it. */
const STEP_MS = 0.1;
/** Clocks of isolated pages step by 5 µs. */
const ISOLATED_STEP_MS = 0.005;

/**
 * Counts the calls of a token as often as a block has tokens. `times` has a triple for each call: when
 * it started, how long it took, and on how many threads.
 */
export const countedPerBlock = (times: CallTimes, { step, rows }: DecoderWire): CallTimes =>
  times.map((ms, i) => (i >= 3 * step && i % 3 === 1 ? rows * ms : ms));

/** The milliseconds that the kernel before took in a run, and all other workloads in such runs. */
interface Before {
  readonly ms: number;
  readonly othersMs: number;
}

/** The times that measuring foretold for the kernel that runs. */
interface Expected {
  /** Milliseconds of a run, while they are not known. */
  readonly expectedMs: number;
  /** Time over that of the kernel before the first swap, and the same of the kernel before the last. */
  readonly relative: number;
  readonly relativeBefore: number;
}

interface WorkloadTimes extends Expected {
  /** Milliseconds of all calls of the kernel that runs, in its last runs. */
  readonly recent: readonly number[];
  /** Null once it is compared, or where nothing was swapped. */
  readonly before: Before | null;
}

/** The relative times of a workload in which nothing was swapped. */
const FIRST = { relative: 1, relativeBefore: 1 };

const least = ({ recent, expectedMs }: Pick<WorkloadTimes, "recent" | "expectedMs">): number =>
  recent.length > 0 ? Math.min(...recent) : expectedMs;

/** Owns the times of one model. */
export class RunTimes {
  readonly #plan: Pick<PlanWire, "calls" | "kernels">;
  readonly #stepMs: number;
  readonly #known = new Map<string, WorkloadTimes>();
  /** Milliseconds of all calls in the last runs since a kernel was swapped. */
  #whole: readonly number[] = [];
  /** The least of that before the first swap, scaled to the speed of the device now. */
  #initialMs: number | null = null;
  /** The least of that in the first runs of the kernels that run; null until they are over. */
  #settledMs: number | null = null;
  /** The last swap, and the least of that before it. */
  #last: { readonly workload: string; readonly wholeMs: number } | null = null;

  constructor(plan: Pick<PlanWire, "calls" | "kernels">, isolated: boolean) {
    this.#plan = plan;
    this.#stepMs = isolated ? ISOLATED_STEP_MS : STEP_MS;
  }

  /** By workload. */
  get ms(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#known].map(([key, known]) => [key, least(known)]));
  }

  /** Answers workloads whose kernel turns out to be slower than the one before. */
  ran(times: CallTimes): readonly string[] {
    const sums = new Map<string, number>();
    for (const [i, { kernel }] of this.#plan.calls.entries()) {
      const workload = this.#plan.kernels[kernel] as string;
      sums.set(workload, (sums.get(workload) ?? 0) + (times[3 * i + 1] ?? 0));
    }
    for (const [workload, ms] of sums) {
      const known = this.#known.get(workload) ?? {
        ...FIRST,
        recent: [],
        expectedMs: ms,
        before: null,
      };
      this.#known.set(workload, { ...known, recent: [...known.recent, ms].slice(-RUNS) });
    }
    const wholeMs = [...sums.values()].reduce((sum, ms) => sum + ms, 0);
    this.#whole = [...this.#whole, wholeMs].slice(-RUNS);
    if (this.#whole.length === RUNS) this.#settledMs ??= Math.min(...this.#whole);
    return [...sums.keys()].filter((workload) => this.#isSlower(workload));
  }

  /** Another kernel runs from the next run on. */
  swapped(workload: string, relativeTime: number): void {
    const known = this.#known.get(workload);
    if (known === undefined) return;
    this.#follow();
    this.#last = { workload, wholeMs: Math.min(...this.#whole) };
    this.#initialMs ??= this.#last.wholeMs;
    this.#changed(null);
    const before = { ms: least(known), othersMs: this.#othersMs(workload) };
    const expected: Expected = {
      expectedMs: relativeTime * before.ms,
      relative: relativeTime * known.relative,
      relativeBefore: known.relative,
    };
    this.#known.set(workload, { recent: [], ...expected, before });
  }

  /** The kernel before the first that was swapped runs again. */
  takenBack(workload: string): void {
    const known = this.#known.get(workload);
    if (known === undefined) return;
    const beforeMs = known.before?.ms ?? known.expectedMs;
    const expectedMs = beforeMs / known.relativeBefore;
    // The other kernels are those from before the swap, unless there was another since.
    const { wholeMs } = this.#last?.workload === workload ? this.#last : { wholeMs: null };
    this.#changed(wholeMs === null ? null : wholeMs - beforeMs + expectedMs);
    this.#last = null;
    this.#known.set(workload, { ...FIRST, recent: [], expectedMs, before: null });
  }

  /**
   * Scales `#initialMs` by how much slower or faster the device has become, as the times of all
   * calls with the same kernels tell.
   */
  #follow(): void {
    if (this.#initialMs === null || this.#settledMs === null || this.#whole.length < RUNS) return;
    this.#initialMs *= Math.min(...this.#whole) / this.#settledMs;
  }

  /** Other kernels run from the next run on; `settledMs` is known of those that have run before. */
  #changed(settledMs: number | null): void {
    this.#settledMs = settledMs;
    this.#whole = [];
  }

  /** Returns whether the kernel is slower than the one before; decides that once for each swap. */
  #isSlower(workload: string): boolean {
    const known = this.#known.get(workload) as WorkloadTimes;
    const { before, recent } = known;
    if (before === null || recent.length < RUNS) return false;
    this.#known.set(workload, { ...known, expectedMs: before.ms, before: null });
    // Where all other workloads have become slower, the device has.
    const drift = before.othersMs > 0 ? this.#othersMs(workload) / before.othersMs : 1;
    return (
      this.#exceeds(least(known), Math.max(1, drift) * before.ms) ||
      // It may slow down other workloads, by what it leaves in the caches.
      this.#exceeds(Math.min(...this.#whole), this.#initialMs ?? Infinity)
    );
  }

  #exceeds(ms: number, beforeMs: number): boolean {
    return ms > SLOWER * beforeMs + this.#stepMs;
  }

  #othersMs(workload: string): number {
    const others = [...this.#known].filter(([key]) => key !== workload);
    return others.reduce((sum, [, known]) => sum + least(known), 0);
  }
}
