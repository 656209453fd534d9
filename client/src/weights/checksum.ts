/** Four multipliers, all odd, so that each step keeps all that a lane knows (those of xxHash32). */
const [A, B, C, D] = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f] as const;

const WORD = Int32Array.BYTES_PER_ELEMENT;
const LANES = 4;

export type Lanes = [number, number, number, number];

/** The checksum of some bytes. */
export type Checksum = (bytes: Uint8Array) => string;

const hex = (lane: number): string => (lane >>> 0).toString(16).padStart(8, "0");

/** The lanes of all words before `to`, a multiple of their number. */
type Rounds = (words: Int32Array, to: number) => Lanes;

/** Computes a checksum by `rounds`; words behind the last whole round go to the first lane. */
export function checksumOf({ buffer, byteOffset, byteLength }: Uint8Array, rounds: Rounds): string {
  const words = new Int32Array(buffer, byteOffset, byteLength / WORD);
  const whole = words.length - (words.length % LANES);
  const [first, ...others] = rounds(words, whole);
  let a = first;
  for (let i = whole; i < words.length; i++) {
    a = Math.imul(a ^ (words[i] as number), A);
    a ^= a >>> 15;
  }
  return [a, ...others].map(hex).join("");
}

const rounds: Rounds = (words, to) => {
  let [a, b, c, d] = [A, B, C, D].map((seed) => seed ^ words.byteLength) as Lanes;
  for (let i = 0; i < to; i += LANES) {
    a = Math.imul(a ^ (words[i] as number), A);
    b = Math.imul(b ^ (words[i + 1] as number), B);
    c = Math.imul(c ^ (words[i + 2] as number), C);
    d = Math.imul(d ^ (words[i + 3] as number), D);
    a ^= a >>> 15;
    b ^= b >>> 15;
    c ^= c >>> 15;
    d ^= d >>> 15;
  }
  return [a, b, c, d];
};

/**
 * Computes what tells bytes that this device wrote from others: a word that changed always changes
 * it. It is no proof against those who choose bytes, who would need the page's own origin. It is
 * computed in place, in shared memory too, several times as fast as SHA-256, which browsers take of
 * copies alone. `bytes` begin at a multiple of four, and so does their number.
 */
export const checksum: Checksum = (bytes) => checksumOf(bytes, rounds);
