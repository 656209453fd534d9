/** Parts of a call, which are run one after the other. */

export const PART_BITS = 8;
export const MOST_PARTS = (1 << PART_BITS) - 1;

/**
 * The range of part `index` of `count`. Parts of several threads are whole multiples of them, but for
 * the last: of 8 blocks in 6 parts, four parts would keep one of two threads waiting.
 */
export function rangeOfPart(
  extent: number,
  index: number,
  count: number,
  threads = 1,
): readonly [number, number] {
  const groups = Math.ceil(extent / threads);
  const edge = (i: number): number => Math.min(extent, threads * Math.floor((groups * i) / count));
  return [edge(index), edge(index + 1)];
}
