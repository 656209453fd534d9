/**
 * A probe is a fingerprint: what leaves the page is rounded to a few levels. Levels are powers of
 * two; the limit of a core, which measurements are held against, keeps quarter octaves (19 %).
 */
import type { ProbeLevels } from "../wire/types.js";

const KIB = 1024;
/** An eighth of a cache is left to everything else. */
const FILLED = 7 / 8;
/** A set that is out of the first cache arrives at half the rate or less (Zen 5: 25 to 40 %). */
const IN_CACHE_FROM = 0.6;

/** The smallest is in every first cache, the one of 256 KiB in every second, the last in none. */
const SET_KIB = [16, 32, 64, 128, 256, 32_768] as const;

/** Working sets to stream, in bytes: multiples of 512. */
export const WORKING_SETS: readonly number[] = /* @__PURE__ */ SET_KIB.map(
  (kib) => kib * KIB * FILLED,
);

/** The nearest power of `base` from 1 on; 0, which is unknown, for less and for what is no rate. */
function power(base: number, value: number): number {
  const exponent = Math.round(Math.log2(value) / Math.log2(base));
  return exponent >= 0 && Number.isFinite(exponent) ? base ** exponent : 0;
}

export const octave = (value: number): number => power(2, value);

/** The nearest power of four: the bandwidth of memory that others leave varies by half. */
export const doubleOctave = (value: number): number => power(4, value);

/** The nearest quarter octave, to two digits. */
export function quarterOctave(value: number): number {
  if (value <= 0) return 0;
  return Number((2 ** (Math.round(4 * Math.log2(value)) / 4)).toPrecision(2));
}

/** The largest set that arrives as fast as the smallest, in KiB: 16, 32, 64 or 128. */
function firstCacheKib(gbps: readonly number[]): number {
  const fastest = gbps[0] ?? 0;
  const sets = SET_KIB.slice(0, 4);
  const slower = sets.findIndex((_, i) => (gbps[i] ?? 0) < IN_CACHE_FROM * fastest);
  return sets[(slower < 0 ? sets.length : slower) - 1] ?? 0;
}

/** Levels from rates: GFLOP/s of the two peaks, GB/s of `WORKING_SETS`. */
export function levelsOf(
  peaks: { readonly mulAdd: number; readonly fma: number },
  gbps: readonly number[],
): ProbeLevels {
  return {
    mul_add_gflops: octave(peaks.mulAdd),
    fma_gflops: octave(peaks.fma),
    l1_kib: firstCacheKib(gbps),
    l1_gbps: octave(gbps[0] ?? 0),
    l2_gbps: octave(gbps[4] ?? 0),
    memory_gbps: doubleOctave(gbps[5] ?? 0),
  };
}
