/** Compares the entries of two outputs. */

/**
 * Largest |a[i] - b[i]|; NaN as soon as one of two entries alone is infinite or not a number. Compare
 * the answer with `<=`, so that NaN never passes.
 */
export function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs((a[i] as number) - (b[i] as number));
    if (difference > largest) largest = difference;
    else if (Number.isNaN(difference) && !Object.is(a[i], b[i])) return Number.NaN;
  }
  return largest;
}
