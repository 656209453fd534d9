/** The example's own check of a kernel's output, as `kernelzoo demo` shows it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

interface Checked {
  readonly max_error: number;
  readonly correct: boolean;
}

interface Tensors {
  readonly inputs: Readonly<Record<string, Float32Array>>;
  readonly shapes: Readonly<Record<string, readonly number[]>>;
}

type Check = (key: string, tensors: Tensors, output: Float32Array, entries: number) => Checked;

const { check } = (await import(pathToFileURL("../examples/kernels/check.js").href)) as {
  readonly check: Check;
};

const ones = (length: number): Float32Array => new Float32Array(length).fill(1);

test("the output of a convolution is checked with the stride and the padding of its key", () => {
  const shapes = { a: [1, 5, 5, 2], b: [3, 3, 2, 3], c: [1, 3, 3, 3] };
  const tensors = { inputs: { a: ones(50), b: ones(54) }, shapes };
  // Of nine taps an edge loses three to the padding and a corner five; each tap has two channels.
  const taps = [4, 6, 4, 6, 9, 6, 4, 6, 4];
  const right = Float32Array.from(taps.flatMap((count) => [2 * count, 2 * count, 2 * count]));
  const key = "conv2d:f32:b1h5w5c2o3kh3kw3stride2pad1";
  assert.deepEqual(check(key, tensors, right, 200), { max_error: 0, checked: 200, correct: true });
  const wrong = right.map((value) => value + 1);
  assert.equal(check(key, tensors, wrong, 200).correct, false);
});

test("the output of a product is checked in every entry that is drawn", () => {
  const tensors = { inputs: { a: ones(6), b: ones(12) }, shapes: { a: [2, 3], b: [3, 4] } };
  const key = "matmul:f32:m2k3n4";
  assert.equal(check(key, tensors, ones(8).fill(3), 50).correct, true);
  assert.equal(check(key, tensors, ones(8), 50).correct, false);
});
