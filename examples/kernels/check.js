/**
 * Largest difference of a float32 sum of n products of numbers in [-0.5, 0.5) from the exact
 * one: n roundings of 2^-24, each of a sum that stays below n/4.
 */
const allowed = (n) => (n * 2 ** -24 * n) / 4;

/** What an entry of the output is the sum of, in float64. `at` counts entries, row-major. */
const DEFINITIONS = {
  matmul({ a, b }, shapes, _, at) {
    const [, k] = shapes.a;
    const n = shapes.b[1];
    let sum = 0;
    for (let x = 0; x < k; x++) sum += a[Math.floor(at / n) * k + x] * b[x * n + (at % n)];
    return sum;
  },

  /** Image [batch, height, width, channels], weights [kh, kw, channels, outputs]. */
  conv2d({ a, b }, shapes, { stride, pad }, at) {
    const [, height, width, channels] = shapes.a;
    const [rows, columns, , outputs] = shapes.b;
    const [, outHeight, outWidth] = shapes.c;
    const to = at % outputs;
    const column = Math.floor(at / outputs) % outWidth;
    const row = Math.floor(at / outputs / outWidth) % outHeight;
    const image = Math.floor(at / outputs / outWidth / outHeight);
    let sum = 0;
    for (let r = 0; r < rows; r++) {
      for (let q = 0; q < columns; q++) {
        const i = row * stride + r - pad;
        const j = column * stride + q - pad;
        if (i < 0 || i >= height || j < 0 || j >= width) continue;
        const from = ((image * height + i) * width + j) * channels;
        const weights = (r * columns + q) * channels * outputs + to;
        for (let c = 0; c < channels; c++) sum += a[from + c] * b[weights + c * outputs];
      }
    }
    return sum;
  },
};

/** Names and numbers of a workload's key: `m384k768n768` is { m: 384, k: 768, n: 768 }. */
const extentsOf = (key) =>
  Object.fromEntries(
    [...key.split(":")[2].matchAll(/([a-z]+)(\d+)/g)].map(([, axis, n]) => [axis, Number(n)]),
  );

/** Products that one entry of the output adds up. */
const lengthOf = { matmul: ({ k }) => k, conv2d: ({ kh, kw, c }) => kh * kw * c };

/** Compares randomly chosen entries of the output with plain JavaScript in float64. */
export function check(key, { inputs, shapes }, output, entries) {
  const operator = key.split(":")[0];
  const definition = DEFINITIONS[operator];
  if (definition === undefined) throw new Error(`This page cannot check ${operator}.`);
  const extents = extentsOf(key);
  let worst = 0;
  for (let i = 0; i < entries; i++) {
    const at = Math.floor(Math.random() * output.length);
    const difference = Math.abs(output[at] - definition(inputs, shapes, extents, at));
    // Written so that NaN becomes the worst.
    if (!(difference <= worst)) worst = difference;
  }
  return {
    max_error: worst,
    checked: entries,
    correct: worst <= allowed(lengthOf[operator](extents)),
  };
}
