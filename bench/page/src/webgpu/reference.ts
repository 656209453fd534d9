/**
 * The right output. No kernel of ours is its judge: an output of a peer is taken, once entries of
 * it, spread over all, were found equal to sums in double precision.
 */
import type { PeerTensor, Task } from "../peers/problem.js";

const ENTRIES = 1024;
/** A prime above most extents, so that entries fall into all rows and columns. */
const STRIDE = 7_368_787;

type Entry = (task: Task, index: number) => number;

const twoOf = ({ inputs }: Task): [PeerTensor, PeerTensor] => [
  inputs[0] as PeerTensor,
  inputs[1] as PeerTensor,
];

/** One entry of a product of matrices, batched or not. */
const productEntry: Entry = (task, index) => {
  const [left, right] = twoOf(task);
  const [m = 1, k = 1] = left.shape.slice(-2);
  const n = right.shape.at(-1) as number;
  const row = Math.floor(index / n);
  const batch = Math.floor(row / m);
  let sum = 0;
  for (let i = 0; i < k; i++) {
    const other = (batch * k + i) * n + (index % n);
    sum += (left.data[row * k + i] as number) * (right.data[other] as number);
  }
  return sum;
};

/** One entry of a convolution: image [b, h, w, c], weights [r, q, c, o], zeros around. */
const convolutionEntry: Entry = (task, index) => {
  const [image, weights] = twoOf(task);
  const [, height = 1, width = 1, channels = 1] = image.shape;
  const [rows = 1, columns = 1, , outputs = 1] = weights.shape;
  const [, outHeight = 1, outWidth = 1] = task.output.shape;
  const { s = 1, p = 0 } = task.given;
  const pixel = Math.floor(index / outputs);
  const top = (Math.floor(pixel / outWidth) % outHeight) * s - p;
  const left = (pixel % outWidth) * s - p;
  const batch = Math.floor(pixel / (outWidth * outHeight));
  let sum = 0;
  for (let r = 0; r < rows; r++) {
    for (let q = 0; q < columns; q++) {
      const [y, x] = [top + r, left + q];
      if (y < 0 || y >= height || x < 0 || x >= width) continue;
      const from = ((batch * height + y) * width + x) * channels;
      const of = (r * columns + q) * channels * outputs + (index % outputs);
      for (let c = 0; c < channels; c++) {
        sum += (image.data[from + c] as number) * (weights.data[of + c * outputs] as number);
      }
    }
  }
  return sum;
};

const ENTRIES_OF: Readonly<Record<string, Entry>> = {
  matmul: productEntry,
  batch_matmul: productEntry,
  conv2d: convolutionEntry,
};

/** Largest difference of the sampled entries; NaN when one is not a number. */
export function sampledDifference(task: Task, output: Float32Array): number {
  const entry = ENTRIES_OF[task.operator];
  if (entry === undefined) throw new Error(`no reference is written for ${task.operator}`);
  let largest = 0;
  for (let i = 0; i < ENTRIES; i++) {
    const index = (i * STRIDE) % output.length;
    const difference = Math.abs((output[index] as number) - entry(task, index));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}
