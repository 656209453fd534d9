/**
 * Brings a kernel to the optimising tier. V8 starts in baseline code, 5 to 11 times slower, and
 * never replaces the code of a running call, so one long call would stay slow to its end. Short
 * slices through lo and hi let the optimised code in after 2 to 7 calls (Chromium 156).
 */
import { type Clock, now } from "./clock.js";

export interface Sliceable {
  readonly extent: number;
  run(lo: number, hi: number): void;
}

export interface WarmUpLimits {
  /** Step of the clock; a slice lasts at least ten of them. */
  readonly stepMs: number;
  /** Stop waiting for a faster tier after this long without one. */
  readonly patienceMs: number;
  /** Stop after this long in any case, once the whole range has run. */
  readonly limitMs: number;
  /** Give up at this time of the clock, even within the range. */
  readonly deadlineMs: number;
}

/**
 * `callMs` estimates one call in the tier that was reached, `firstMs` is what the first whole range
 * took, and `fastMs` how long it took, from the beginning on, until a slice was as fast as that tier.
 */
export interface Warmth {
  readonly callMs: number;
  readonly firstMs: number;
  readonly fastMs: number;
}

export type WarmUp =
  | ({ readonly kind: "settled" } & Warmth)
  | ({ readonly kind: "unsettled" } & Warmth)
  | { readonly kind: "late" };

const FIRST_SLICES = 64;
const SHORTEST_SLICE_MS = 0.2;
const LONGEST_SLICE_MS = 4;
const STABLE_SLICES = 4;
const STABLE_WITHIN = 1.25;
/** Baseline code is at least 5 times slower; half the time leaves room for noise. */
const TIERED_UP_AT = 0.5;

/** Times per unit of the range, of slices of one length. */
class Pace {
  #times: number[] = [];
  #units = 0;
  #first = Number.NaN;
  /** All slices: milliseconds of a unit, and of work until the slice ended. */
  readonly #all: (readonly [unitMs: number, endMs: number])[] = [];

  add(units: number, elapsedMs: number, endMs: number): void {
    if (units !== this.#units) this.#times = [];
    this.#units = units;
    this.#times.push(elapsedMs / units);
    this.#all.push([elapsedMs / units, endMs]);
    if (Number.isNaN(this.#first)) this.#first = elapsedMs / units;
  }

  /** Infinite before the first slice. */
  get best(): number {
    return Math.min(...this.#times);
  }

  /** Milliseconds of work until the first slice ended that was as fast as the best. */
  get fastMs(): number {
    return this.#all.find(([unitMs]) => unitMs <= STABLE_WITHIN * this.best)?.[1] ?? 0;
  }

  get stable(): boolean {
    const recent = this.#times.slice(-STABLE_SLICES);
    return recent.length === STABLE_SLICES && Math.max(...recent) <= STABLE_WITHIN * this.best;
  }

  get tieredUp(): boolean {
    return this.best <= TIERED_UP_AT * this.#first;
  }
}

/** Runs the slice of `units` from `lo`, or to the range's end, and answers where it ended. */
function runSlice(kernel: Sliceable, lo: number, units: number): number {
  const { extent } = kernel;
  const hi = Math.min(lo + units, extent);
  if (units <= extent) kernel.run(lo, hi);
  else for (let calls = units / extent; calls > 0; calls--) kernel.run(0, extent);
  return hi;
}

/** Twice as many units, stopping at the whole range; beyond it they are whole calls. */
const longer = (units: number, extent: number): number =>
  units < extent ? Math.min(2 * units, extent) : 2 * units;

/**
 * Runs the whole range at least once in short slices, then goes on until the time of a slice
 * settles; yields after each slice. `callMs` estimates one whole call in the tier that was reached. A
 * slice that is too short for the clock is followed by longer ones and does not count, nor does the
 * range's end.
 */
export function* warmingUp(
  kernel: Sliceable,
  limits: WarmUpLimits,
  clock: Clock = now,
): Generator<void, WarmUp> {
  const { extent } = kernel;
  const shortestMs = Math.max(SHORTEST_SLICE_MS, 10 * limits.stepMs);
  const pace = new Pace();
  const start = clock();
  let firstMs: number | null = null;
  let workedMs = 0;
  let units = Math.max(1, Math.floor(extent / FIRST_SLICES));
  for (let lo = 0; ; ) {
    const before = clock();
    const hi = runSlice(kernel, lo, units);
    const after = clock();
    const elapsed = after - before;
    workedMs += elapsed;
    if (hi === extent) firstMs ??= workedMs;
    if (after > limits.deadlineMs) return { kind: "late" };
    const whole = hi - lo === units || units > extent;
    if (elapsed < shortestMs && whole) units = longer(units, extent);
    else if (whole) pace.add(units, elapsed, workedMs);
    const callMs = pace.best * extent;
    const patient = !pace.tieredUp && after - start < limits.patienceMs;
    if (firstMs !== null && Number.isFinite(callMs)) {
      const warmth = { callMs, firstMs, fastMs: pace.fastMs };
      if (pace.stable && !patient) return { kind: "settled", ...warmth };
      if (after - start > limits.limitMs) return { kind: "unsettled", ...warmth };
    }
    if (whole && elapsed > LONGEST_SLICE_MS) units = Math.max(1, units >> 1);
    lo = hi === extent ? 0 : hi;
    yield;
  }
}

/** Warms a kernel up without a pause. */
export function warmUp(kernel: Sliceable, limits: WarmUpLimits, clock: Clock = now): WarmUp {
  const slices = warmingUp(kernel, limits, clock);
  for (;;) {
    const { done, value } = slices.next();
    if (done === true) return value;
  }
}
