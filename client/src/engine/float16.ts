/**
 * Conversion between float32 and the 16 bits of a float16. A page holds float32 alone; the buffers
 * of a GPU hold float16. Not every browser has `Float16Array`, which converts alike.
 */
const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

const INFINITE = 0x7c00;
const NOT_A_NUMBER = 0x7e00;
/** The bits of the float32 65520, from which on values round to infinity. */
const ROUNDS_TO_INFINITE = 0x477f_f000;
/** The bits of the float32 2⁻¹⁴, below which a float16 is a multiple of 2⁻²⁴. */
const NORMAL = 0x3880_0000;
/** The difference of the exponents' biases, 127 − 15, in its place among the bits. */
const EXPONENTS = 112 << 23;
const DROPPED_BITS = 13;
const HALF_STEP = (1 << (DROPPED_BITS - 1)) - 1;

/** Rounds to the nearest float16, ties to even. What overflows becomes infinite. */
function bitsOfValue(value: number): number {
  float[0] = value;
  const bits = word[0] as number;
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fff_ffff;
  if (size >= ROUNDS_TO_INFINITE) return sign | (size > 0x7f80_0000 ? NOT_A_NUMBER : INFINITE);
  if (size < NORMAL) {
    // The steps of float32 from 1/2 on are 2⁻²⁴.
    float[0] = 0.5 + Math.abs(float[0] as number);
    return sign | ((word[0] as number) - 0x3f00_0000);
  }
  const odd = (size >>> DROPPED_BITS) & 1;
  return sign | ((size - EXPONENTS + HALF_STEP + odd) >>> DROPPED_BITS);
}

function valueOfBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The value after it was stored as float16. */
export const roundedToFloat16 = (value: number): number => valueOfBits(bitsOfValue(value));

export function toFloat16(values: Float32Array): Uint16Array<ArrayBuffer> {
  const bits = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) bits[i] = bitsOfValue(values[i] as number);
  return bits;
}

/** The value of each of the 65,536 patterns, as outputs have millions of entries. */
let decoded: Float32Array | null = null;

export function fromFloat16(bits: Uint16Array): Float32Array<ArrayBuffer> {
  decoded ??= Float32Array.from({ length: 1 << 16 }, (_, pattern) => valueOfBits(pattern));
  const values = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) values[i] = decoded[bits[i] as number] as number;
  return values;
}
