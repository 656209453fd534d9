/** A second of work that shows the gateway that an identity is more than a page load. */
import { sha256Hex } from "../engine/sha256.js";

/** As services/gateway/attestation/proof_of_work.py has them. */
const PIECES = 16;
const PIECE_BITS = 4;
const SLICE_MS = 20;

/**
 * The challenge and a number for each of its pieces, as the gateway takes them. Works in slices,
 * with a `pause` between them.
 */
export async function solved(challenge: string, pause: () => Promise<void>): Promise<string> {
  const wanted = Number.parseInt(challenge, 10) - PIECE_BITS;
  const encoder = new TextEncoder();
  const numbers: number[] = [];
  let sliceEndsMs = performance.now() + SLICE_MS;
  for (let piece = 0; piece < PIECES; piece++) {
    let number = 0;
    while (zeros(sha256Hex(encoder.encode(`${challenge}:${piece}:${number}`))) < wanted) {
      number++;
      if (performance.now() < sliceEndsMs) continue;
      await pause();
      sliceEndsMs = performance.now() + SLICE_MS;
    }
    numbers.push(number);
  }
  return [challenge, ...numbers].join(",");
}

/** Zero bits before the first that is not, of the first 32. */
const zeros = (hex: string): number => Math.clz32(Number.parseInt(hex.slice(0, 8), 16));
