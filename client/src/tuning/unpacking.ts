/**
 * Weights as the author stored them, from a copy that was packed for a kernel: pack kernels move entries
 * and fill gaps with zeros, so that what one makes of the numbers 1, 2, 3, … tells whence each came.
 */

/** Copies entries back, in slices; answers false where the copy is no rearrangement. */
export async function unpack(
  origins: Int32Array,
  packed: Int32Array,
  plain: Int32Array,
  rest: () => Promise<void>,
): Promise<boolean> {
  const seen = new Uint8Array(plain.length);
  let found = 0;
  for (let from = 0; from < packed.length; from += SLICE) {
    const to = Math.min(from + SLICE, packed.length);
    for (let i = from; i < to; i++) {
      const origin = origins[i] as number;
      if (origin === 0) continue;
      if (origin < 0 || origin > plain.length) return false;
      plain[origin - 1] = packed[i] as number;
      found += 1 - (seen[origin - 1] as number);
      seen[origin - 1] = 1;
    }
    await rest();
  }
  return found === plain.length;
}

/** Entries that are moved in about a millisecond. */
const SLICE = 1 << 17;

/** The numbers 1, 2, 3, …, in slices. */
export async function number(entries: Int32Array, rest: () => Promise<void>): Promise<void> {
  for (let from = 0; from < entries.length; from += SLICE) {
    const to = Math.min(from + SLICE, entries.length);
    for (let i = from; i < to; i++) entries[i] = i + 1;
    await rest();
  }
}
