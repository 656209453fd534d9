/**
 * Largest |a[i] - b[i]|; NaN as soon as one difference is not a number. Compare the answer with
 * `<=`, so that NaN never passes.
 */
export function maxDifference(a: Float32Array, b: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs((a[i] as number) - (b[i] as number));
    if (difference > largest) largest = difference;
    else if (Number.isNaN(difference)) return Number.NaN;
  }
  return largest;
}
