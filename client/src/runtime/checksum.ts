import { fromHex } from "../engine/bytes.js";

/** Four multipliers, all odd, so that each step keeps all that a lane knows (those of xxHash32). */
const [A, B, C, D] = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f] as const;

const WORD = Int32Array.BYTES_PER_ELEMENT;
const LANES = 4;

type Lanes = [number, number, number, number];

/** The checksum of some bytes. */
export type Checksum = (bytes: Uint8Array) => string;

const hex = (lane: number): string => (lane >>> 0).toString(16).padStart(8, "0");

/** `words` from `from` on are fewer than there are lanes. */
function ended([a, b, c, d]: Lanes, words: Int32Array, from: number): string {
  let first = a;
  for (let i = from; i < words.length; i++) {
    first = Math.imul(first ^ (words[i] as number), A);
    first ^= first >>> 15;
  }
  return hex(first) + hex(b) + hex(c) + hex(d);
}

/**
 * What tells bytes that this device wrote from others: a word that changed always changes it. It is no
 * proof against those who choose bytes, who would need the page's own origin. It is computed in place,
 * in shared memory too, several times as fast as SHA-256, which browsers take of copies alone.
 * `bytes` begin at a multiple of four, and so does their number.
 */
export const checksum: Checksum = ({ buffer, byteOffset, byteLength }) => {
  const words = new Int32Array(buffer, byteOffset, byteLength / WORD);
  const whole = words.length - (words.length % LANES);
  let [a, b, c, d] = [A, B, C, D].map((seed) => seed ^ byteLength) as Lanes;
  for (let i = 0; i < whole; i += LANES) {
    a = Math.imul(a ^ (words[i] as number), A);
    b = Math.imul(b ^ (words[i + 1] as number), B);
    c = Math.imul(c ^ (words[i + 2] as number), C);
    d = Math.imul(d ^ (words[i + 3] as number), D);
    a ^= a >>> 15;
    b ^= b >>> 15;
    c ^= c >>> 15;
    d ^= d >>> 15;
  }
  return ended([a, b, c, d], words, whole);
};

/**
 * The loop of `checksum` with its lanes in one vector, `main(from, to, byteLength)` with four results:
 * `v128.xor`, `i32x4.mul`, and `i32x4.shr_u` by 15 with another `v128.xor` for each `v128.load`.
 */
const MODULE =
  "0061736d01000000010b0160037f7f7f047f7f7f7f02120103656e76066d656d6f7279020300808004030201000708" +
  "01046d61696e00000a6b016901027bfd0cb179379e77caeb853daeb2c22febd42722032002fd11fd51210402402000" +
  "20014f0d0003402000fd0002002004fd512003fdb50122042004410ffdad01fd512104200041106a22002001490d00" +
  "0b0b2004fd1b002004fd1b012004fd1b022004fd1b030b";

/**
 * The same checksums, those of bytes in `memory` three to five times as fast: a page that opens kept
 * weights has not run enough JavaScript yet for its engine to optimise that.
 */
export function checksumIn(memory: WebAssembly.Memory): Checksum {
  let main: (from: number, to: number, byteLength: number) => Lanes;
  try {
    const module = new WebAssembly.Module(fromHex(MODULE));
    main = new WebAssembly.Instance(module, { env: { memory } }).exports.main as typeof main;
  } catch {
    return checksum; // An engine without vectors, or a page without WebAssembly.
  }
  return (bytes) => {
    const { buffer, byteOffset, byteLength } = bytes;
    if (buffer !== memory.buffer) return checksum(bytes);
    const words = new Int32Array(buffer, byteOffset, byteLength / WORD);
    const whole = words.length - (words.length % LANES);
    const lanes = main(byteOffset, byteOffset + WORD * whole, byteLength);
    return ended(lanes, words, whole);
  };
}
