/** Parts of a call, which are run one after the other. */

export const PART_BITS = 8;
export const MOST_PARTS = (1 << PART_BITS) - 1;

/** The range of part `index` of `count` equal ones of a call. */
export function rangeOfPart(
  extent: number,
  index: number,
  count: number,
): readonly [number, number] {
  return [Math.floor((extent * index) / count), Math.floor((extent * (index + 1)) / count)];
}
