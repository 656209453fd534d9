/** Parts of a call, which are run one after the other. */

export const PART_BITS = 8;
export const MOST_PARTS = (1 << PART_BITS) - 1;

/** Returns where part `index` of `count` begins and the part before it ends: see `rangeOfPart`. */
export function edgeOfPart(extent: number, index: number, count: number, threads = 1): number {
  const groups = Math.ceil(extent / threads);
  return Math.min(extent, threads * Math.floor((groups * index) / count));
}

/**
 * The range of part `index` of `count`. Parts of several threads are whole multiples of them, but for
 * the last: of 8 blocks in 6 parts, four parts would keep one of two threads waiting.
 */
export const rangeOfPart = (
  extent: number,
  index: number,
  count: number,
  threads = 1,
): readonly [number, number] => [
  edgeOfPart(extent, index, count, threads),
  edgeOfPart(extent, index + 1, count, threads),
];
