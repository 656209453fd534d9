/** SHA-256 (FIPS 180-4), also without `crypto.subtle`, which pages on plain http do not have. */

/** Bits of the fractional parts of the cube and square roots of the first 64 primes. */
function rootFractions(degree: number, count: number): Uint32Array {
  const fractions = new Uint32Array(count);
  for (let n = 2, primes = 0; primes < count; n++) {
    if (!isPrime(n)) continue;
    const root = n ** (1 / degree);
    fractions[primes++] = (root - Math.floor(root)) * 2 ** 32;
  }
  return fractions;
}

function isPrime(n: number): boolean {
  for (let d = 2; d * d <= n; d++) if (n % d === 0) return false;
  return true;
}

// A bundle that hashes nothing leaves these calls out.
const ROUND = /* @__PURE__ */ rootFractions(3, 64);
const INITIAL = /* @__PURE__ */ rootFractions(2, 8);

/**
 * Returns the end of a message of `length` bytes, followed by a 1, zeros and that length in bits,
 * as big-endian words.
 */
function padded(message: Uint8Array, length: number): Uint32Array {
  const bytes = new Uint8Array((((message.length + 8) >> 6) + 1) << 6);
  bytes.set(message);
  bytes[message.length] = 0x80;
  const view = new DataView(bytes.buffer);
  view.setUint32(bytes.length - 8, Math.floor(length / 2 ** 29));
  view.setUint32(bytes.length - 4, length << 3);
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(i * 4));
}

const rotate = (x: number, by: number): number => (x >>> by) | (x << (32 - by));

function schedule(words: Uint32Array, start: number, w: Uint32Array): void {
  w.set(words.subarray(start, start + 16));
  for (let i = 16; i < 64; i++) {
    const early = w[i - 15] as number;
    const late = w[i - 2] as number;
    const small = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const large = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    w[i] = (w[i - 16] as number) + small + (w[i - 7] as number) + large;
  }
}

type HashWords = [number, number, number, number, number, number, number, number];

function compress(state: Uint32Array, w: Uint32Array): void {
  let [a, b, c, d, e, f, g, h] = state as unknown as HashWords;
  for (let i = 0; i < 64; i++) {
    const sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = h + sum1 + ((e & f) ^ (~e & g)) + (ROUND[i] as number) + (w[i] as number);
    const sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) {
    state[i] = (state[i] as number) + value;
  }
}

function absorb(state: Uint32Array, words: Uint32Array): void {
  const w = new Uint32Array(64);
  for (let start = 0; start < words.length; start += 16) {
    schedule(words, start, w);
    compress(state, w);
  }
}

function hexOf(state: Uint32Array, end: Uint8Array, length: number): string {
  absorb(state, padded(end, length));
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/** The digest of `message` as 64 lower-case hex digits. */
export const sha256Hex = (message: Uint8Array): string =>
  hexOf(INITIAL.slice(), message, message.length);

/**
 * Makes the digest of a message that comes in pieces. All but the last are of whole blocks of 64
 * bytes.
 */
export class Sha256 {
  readonly #state = INITIAL.slice();
  #length = 0;

  add(blocks: Uint8Array): void {
    this.#length += blocks.length;
    const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.length);
    const words = Uint32Array.from({ length: blocks.length / 4 }, (_, i) => view.getUint32(i * 4));
    absorb(this.#state, words);
  }

  /** The digest of all pieces, with the last one. */
  hex(last: Uint8Array): string {
    return hexOf(this.#state, last, this.#length + last.length);
  }
}

/**
 * Returns the digest as `sha256Hex` does, by the browser's own code where the page has it:
 * otherwise the kernels of a model take 0.1 s in a page that has just begun, as its engine has not
 * optimised this code yet.
 */
export async function digestOf(message: Uint8Array<ArrayBuffer>): Promise<string> {
  if (globalThis.crypto?.subtle === undefined) return sha256Hex(message);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", message));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
