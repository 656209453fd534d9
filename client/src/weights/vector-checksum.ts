/** Checksums by WebAssembly, for workers: pages would load another file before the SDK for this. */
import { fromHex } from "../engine/bytes.js";
import { type Checksum, checksum, checksumOf, type Lanes } from "./checksum.js";

/**
 * The rounds of a checksum with their lanes in one vector, `main(from, to, byteLength)` with four results:
 * `v128.xor`, `i32x4.mul`, and `i32x4.shr_u` by 15 with another `v128.xor` for each `v128.load`.
 */
const MODULE =
  "0061736d01000000010b0160037f7f7f047f7f7f7f02120103656e76066d656d6f7279020300808004030201000708" +
  "01046d61696e00000a6b016901027bfd0cb179379e77caeb853daeb2c22febd42722032002fd11fd51210402402000" +
  "20014f0d0003402000fd0002002004fd512003fdb50122042004410ffdad01fd512104200041106a22002001490d00" +
  "0b0b2004fd1b002004fd1b012004fd1b022004fd1b030b";

/**
 * Returns a function that computes the same checksums, those of bytes in `memory` three to five
 * times as fast: a page that opens kept weights has not run enough JavaScript yet for its engine to
 * optimise the function in `checksum.ts`.
 */
export function checksumIn(memory: WebAssembly.Memory): Checksum {
  let main: (from: number, to: number, byteLength: number) => Lanes;
  try {
    const module = new WebAssembly.Module(fromHex(MODULE));
    main = new WebAssembly.Instance(module, { env: { memory } }).exports.main as typeof main;
  } catch {
    return checksum; // An engine without vectors, or a page without WebAssembly.
  }
  return (bytes) =>
    bytes.buffer === memory.buffer
      ? checksumOf(bytes, ({ byteOffset, byteLength, BYTES_PER_ELEMENT }, to) =>
          main(byteOffset, byteOffset + BYTES_PER_ELEMENT * to, byteLength),
        )
      : checksum(bytes);
}
