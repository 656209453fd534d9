/**
 * Restores weights as the author stored them from a copy that was packed for a kernel. Pack kernels
 * move entries and fill gaps with zeros, so that the copy which one makes of the numbers 1, 2, 3, …
 * tells where each entry came from.
 */
import { paced } from "../timing/paced-loop.js";

/** Copies entries back, in slices; answers false where the copy is no rearrangement. */
export async function unpack(
  origins: Int32Array,
  packed: Int32Array,
  plain: Int32Array,
  rest: () => Promise<void>,
): Promise<boolean> {
  const seen = new Uint8Array(plain.length);
  let restored = 0;
  await paced(packed.length, rest, (from, to) => {
    for (let i = from; i < to; i++) {
      const origin = origins[i] as number;
      if (origin === 0) continue;
      if (origin < 0 || origin > plain.length) return false;
      plain[origin - 1] = packed[i] as number;
      restored += 1 - (seen[origin - 1] as number);
      seen[origin - 1] = 1;
    }
    return true;
  });
  return restored === plain.length;
}

/** Writes the numbers 1, 2, 3, …, in slices. */
export const number = (entries: Int32Array, rest: () => Promise<void>): Promise<void> =>
  paced(entries.length, rest, (from, to) => {
    for (let i = from; i < to; i++) entries[i] = i + 1;
  });
