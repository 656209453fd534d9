/**
 * Largest difference of a float32 sum of n products of numbers in [-0.5, 0.5) from the exact
 * one: n roundings of 2^-24, each of a sum that stays below n/4.
 */
const allowed = (n) => (n * 2 ** -24 * n) / 4;

/** Compares randomly chosen entries of a matrix product with plain JavaScript in float64. */
export function check({ inputs: { a, b }, shapes }, output, entries) {
  const [, k] = shapes.a;
  const n = shapes.b[1];
  let worst = 0;
  for (let i = 0; i < entries; i++) {
    const at = Math.floor(Math.random() * output.length);
    const row = Math.floor(at / n);
    let sum = 0;
    for (let x = 0; x < k; x++) sum += a[row * k + x] * b[x * n + (at % n)];
    const difference = Math.abs(output[at] - sum);
    // Written so that NaN becomes the worst.
    if (!(difference <= worst)) worst = difference;
  }
  return { max_error: worst, checked: entries, correct: worst <= allowed(k) };
}
