/** Samples of a bound program: many calls in one pass, or one call in several passes. */
import { type Clock, now } from "../../timing/clock.js";
import { callsPerSample } from "../../timing/samples.js";
import type { Sliced } from "./binding.js";
import type { GpuTimer } from "./timer.js";

/** A submission of a slow kernel lasts about this long: the page draws with this GPU. */
export const PASS_MS = 50;
/** Commands of a pass are checked and kept before it begins. */
const MOST_CALLS = 4_096;
/** Calls grow this fast at the most, as the first ones run at the clock of an idle GPU. */
const RAMP = 8;
/** Readings in a row that must find a sample long enough. */
const READINGS = 2;

/** `calls` in one pass, or one call in `passes`. */
export interface SampleShape {
  readonly calls: number;
  readonly passes: number;
}

/** Mean nanoseconds of one call. Throws KernelZooError: run, timeout at `untilMs` of the clock. */
export async function gpuSampleNs(
  timer: GpuTimer,
  work: Sliced,
  { calls, passes }: SampleShape,
  untilMs: number,
  clock: Clock = now,
): Promise<number> {
  const slices = work.slices;
  let sumNs = 0;
  for (let i = 0; i < passes; i++) {
    const lo = Math.floor((i * slices) / passes);
    const hi = Math.floor(((i + 1) * slices) / passes);
    const encode = (pass: GPUComputePassEncoder): void => {
      for (let call = 0; call < calls; call++) work.encode(pass, lo, hi);
    };
    sumNs += await timer.passNs(encode, untilMs - clock());
  }
  return sumNs / calls;
}

/**
 * Calls or passes of one sample. A slow kernel may be given twice the passes that it needs, as
 * `callMs` was measured on a GPU that had been idle. Otherwise calls grow until two readings in a
 * row are long enough: the first reading may take many times as long while the GPU raises its clock
 * or its driver compiles, and calls sized by it alone would be too few, so that overhead would fill
 * every sample.
 */
export async function shapeOf(
  timer: GpuTimer,
  work: Sliced,
  callMs: number,
  untilMs: number,
  clock: Clock = now,
): Promise<SampleShape> {
  if (callMs > PASS_MS) {
    return { calls: 1, passes: Math.min(Math.ceil(callMs / PASS_MS), work.slices) };
  }
  for (let calls = 1, enough = 0; ; ) {
    const ns = await gpuSampleNs(timer, work, { calls, passes: 1 }, untilMs, clock);
    const needed = Math.min(callsPerSample(ns / 1e6, timer.stepMs), MOST_CALLS);
    enough = needed <= calls ? enough + 1 : 0;
    if (enough === READINGS) return { calls, passes: 1 };
    calls = Math.max(calls, Math.min(needed, RAMP * calls));
  }
}
