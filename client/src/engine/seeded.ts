/**
 * Seeded inputs, equal to those of `kernelzoo/domain/seeded.py` to the bit. Element `i` of input
 * tensor `t` under `seed` is 24 bits of `mix(seed + t·GOLDEN + i·STEP)`, scaled to [-0.5, 0.5).
 */

const GOLDEN = 0x9e3779b9;
const STEP = 0x85ebca77;
const SAMPLE_SALT = 0x27d4eb2f;
const SAMPLED_ENTRIES = 64;

/** Finaliser of MurmurHash3 (fmix32), on a 32-bit integer; the result is signed. */
function mix(value: number): number {
  let x = value ^ (value >>> 16);
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  return x ^ (x >>> 16);
}

/** Fills `into` with input tensor number `tensor` under `seed`. About 3 ms per million entries. */
export function fillSeeded(into: Float32Array, seed: number, tensor: number): void {
  let x = (seed + Math.imul(tensor, GOLDEN)) | 0;
  for (let i = 0; i < into.length; i++) {
    into[i] = (mix(x) >>> 8) * 2 ** -24 - 0.5;
    x = (x + STEP) | 0;
  }
}

/** The 64 flat output positions whose values an agent reports. */
export function sampledPositions(seed: number, outputElements: number): readonly number[] {
  return Array.from({ length: SAMPLED_ENTRIES }, (_, i) => {
    const hash = mix((seed + SAMPLE_SALT + Math.imul(i, STEP)) | 0) >>> 0;
    return hash % outputElements;
  });
}

/**
 * Largest absolute difference between two right float32 sums of `n` products of seeded inputs;
 * derived in `kernelzoo/domain/seeded.py`.
 */
export function comparisonTolerance(n: number): number {
  const magnitude = n / 16 + (6 * Math.sqrt(n)) / 8;
  return 2 * (n + 1) * 2 ** -24 * magnitude;
}
