/**
 * Makes the inputs on which kernels are verified, and chooses the positions of outputs to report.
 *
 * Both equal those of `kernelzoo/domain/seeded.py` to the bit. Element `i` of input tensor
 * `t` under `seed` is made from `mix(seed + t·GOLDEN + i·STEP)`: for f32, 24 bits scaled to [-0.5,
 * 0.5); for f16, that rounded to the nearest; for i8, the highest byte from -128 on, or from minus a
 * limit up to it; for other integers, the remainder below the limit, as that of an index; for i32
 * without a limit, all 32 bits.
 */
import type { TensorWire } from "../wire/types.js";
import { roundedToFloat16 } from "./float16.js";
import type { TensorView } from "./tensors.js";

/** The seed of a page that compares two kernels. */
export const VERIFICATION_SEED = 1;

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

/** Fills `into` by `value` of the 32 bits of each entry. About 3 ms per million entries. */
function fill(into: TensorView, seed: number, tensor: number, value: (bits: number) => number) {
  let x = (seed + Math.imul(tensor, GOLDEN)) | 0;
  for (let i = 0; i < into.length; i++) {
    into[i] = value(mix(x));
    x = (x + STEP) | 0;
  }
}

const fraction = (bits: number): number => (bits >>> 8) * 2 ** -24 - 0.5;

type Seeded = Pick<TensorWire, "dtype" | "limit">;

/** Fills `into` with input number `number` under `seed`; it is of f32 unless told. */
export function fillSeeded(
  into: TensorView,
  seed: number,
  number: number,
  { dtype, limit }: Seeded = { dtype: "f32", limit: 0 },
): void {
  const least = limit || 128;
  const values = {
    f32: fraction,
    f16: (bits: number) => roundedToFloat16(fraction(bits)),
    i8: (bits: number) => ((bits >>> 24) % (2 * least)) - least,
    i32: (bits: number) => (limit > 0 ? (bits >>> 0) % limit : bits),
  } satisfies Record<TensorWire["dtype"], (bits: number) => number>;
  fill(into, seed, number, values[dtype]);
}

/** The 64 flat output positions whose values an agent reports. */
export function sampledPositions(seed: number, outputElements: number): readonly number[] {
  return Array.from({ length: SAMPLED_ENTRIES }, (_, i) => {
    const hash = mix((seed + SAMPLE_SALT + Math.imul(i, STEP)) | 0) >>> 0;
    return hash % outputElements;
  });
}
