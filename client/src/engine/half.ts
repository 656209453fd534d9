/**
 * float16 as its 16 bits. A page keeps float32: of float16 are the buffers of a GPU alone. Browsers
 * that have `Float16Array` convert alike; this is for all of them.
 */
const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

const INFINITE = 0x7c00;
const NOT_A_NUMBER = 0x7e00;
/** From here on, as the bits of a float32, values round to infinity: 65520. */
const ROUNDS_TO_INFINITE = 0x477f_f000;
/** 2⁻¹⁴, below which a float16 is a multiple of 2⁻²⁴. */
const NORMAL = 0x3880_0000;
/** What the exponents of float32 and float16 differ by: 127 − 15. */
const EXPONENTS = 112 << 23;
const DROPPED_BITS = 13;
const HALF_STEP = (1 << (DROPPED_BITS - 1)) - 1;

/** The nearest float16; of two that are as near, the even one. Overflow is infinite. */
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

/** The value that a float16 would keep. */
export const roundedToHalf = (value: number): number => valueOfBits(bitsOfValue(value));

export function halvesOf(values: Float32Array): Uint16Array<ArrayBuffer> {
  const halves = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) halves[i] = bitsOfValue(values[i] as number);
  return halves;
}

/** The value of each of the 65,536: outputs have millions of entries. */
let decoded: Float32Array | null = null;

export function floatsOf(halves: Uint16Array): Float32Array<ArrayBuffer> {
  decoded ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => valueOfBits(bits));
  const values = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) values[i] = decoded[halves[i] as number] as number;
  return values;
}
