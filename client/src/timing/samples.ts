import { type Clock, now } from "./clock.js";
import type { Sliceable } from "./warmup.js";

/** A sample lasts this many steps of the clock: 1 % of quantisation. */
const STEPS_PER_SAMPLE = 100;
/** A sample lasts at least this long, as a disturbance changes a short one more. */
const SHORTEST_SAMPLE_MS = 1;
const MOST_CALLS = 1_000_000;

/** Calls in one sample of a kernel that takes `callMs`, from 1 to a million. */
export function callsPerSample(callMs: number, stepMs: number): number {
  const sampleMs = Math.max(STEPS_PER_SAMPLE * stepMs, SHORTEST_SAMPLE_MS);
  const calls = Math.ceil(sampleMs / Math.max(callMs, 1e-6));
  return Math.min(Math.max(calls, 1), MOST_CALLS);
}

/** One thing to be timed: `call` runs it once, a sample is the mean of `calls`. */
export interface Contestant {
  readonly calls: number;
  call(): void;
}

/** Mean nanoseconds of one call. */
export function sampleNs({ calls, call }: Contestant, clock: Clock = now): number {
  const start = clock();
  for (let i = 0; i < calls; i++) call();
  return ((clock() - start) * 1e6) / calls;
}

/** Takes one sample: mean nanoseconds of one call. */
export type Sampler = () => number | Promise<number>;

export const samplerOf =
  (contestant: Contestant, clock: Clock = now): Sampler =>
  () =>
    sampleNs(contestant, clock);

/** A slice after which others may run. */
const SLICE_MS = 2.5;

/**
 * Returns a sampler that runs in slices, with a rest after each; the time of rests is not counted.
 */
export function restingSampler(
  { extent, run }: Sliceable,
  { calls, callMs }: { readonly calls: number; readonly callMs: number },
  rest: () => Promise<void>,
  clock: Clock,
): Sampler {
  const units = Math.max(1, Math.floor((extent * SLICE_MS) / callMs));
  return async () => {
    let elapsedMs = 0;
    let start = clock();
    for (let call = 0; call < calls; call++) {
      for (let lo = 0; lo < extent; lo += units) {
        run(lo, Math.min(lo + units, extent));
        const sliceMs = clock() - start;
        if (sliceMs < SLICE_MS) continue;
        elapsedMs += sliceMs;
        await rest();
        start = clock();
      }
    }
    return ((elapsedMs + clock() - start) * 1e6) / calls;
  };
}

/**
 * One sample of each. Each round starts half-way around from the one before, so that the samples
 * of one sampler are spread in time. Answers in the order of `samplers`.
 */
export async function sampleRound(
  samplers: readonly Sampler[],
  round: number,
): Promise<readonly number[]> {
  const count = samplers.length;
  const samples = new Array<number>(count).fill(Number.NaN);
  const first = round * Math.ceil(count / 2);
  for (let i = first; i < first + count; i++) {
    samples[i % count] = await (samplers[i % count] as Sampler)();
  }
  return samples;
}

/** Two samples this close to each other were not disturbed. */
const CONFIRMED_WITHIN = 1.03;

/** True when the best sample was seen twice. */
export function confirmed(samples: readonly number[], within = CONFIRMED_WITHIN): boolean {
  const [best = 0, second = Number.POSITIVE_INFINITY] = [...samples].sort((a, b) => a - b);
  return second <= within * best;
}

/**
 * Interleaved rounds, at least `least` and at most `most`, until the best sample of everyone is
 * confirmed. Answers the samples of each.
 */
export async function interleave(
  samplers: readonly Sampler[],
  least: number,
  most: number,
): Promise<readonly (readonly number[])[]> {
  const all = samplers.map((): number[] => []);
  for (let round = 0; round < most; round++) {
    if (round >= least && all.every((own) => confirmed(own))) break;
    const samples = await sampleRound(samplers, round);
    for (const [i, own] of all.entries()) own.push(samples[i] as number);
  }
  return all;
}

/** The best of samples, in their unit. */
export const best = (samples: readonly number[]): number => Math.min(...samples);

/**
 * Best sample over best sample of the reference. The minimum of interleaved samples ranks
 * better than their median, as noise only ever adds time.
 */
export function relativeTime(samplesNs: readonly number[], referenceNs: readonly number[]): number {
  return best(samplesNs) / best(referenceNs);
}
