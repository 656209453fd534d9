/**
 * The right output. No kernel of ours is its judge: an output of a peer is taken, once entries of
 * it, spread over all, were found equal to those of double precision; of ours, equally held to
 * them, only where no peer has one.
 */

import { fillSeeded } from "../../../../client/src/engine/seeded.js";
import { elementsOf } from "../../../../client/src/engine/tensors.js";
import type { Lease } from "../../../../client/src/wire/types.js";
import { type PeerTensor, parsedKey, type Task, VARIANCE_FLOOR } from "../peers/problem.js";

/** A lease as peers see it, with the same inputs. */
export function taskOf({ workload, seed, reference }: Lease): Task {
  const inputs: PeerTensor[] = reference.tensors.slice(0, -1).map((tensor, i) => {
    const named = { name: tensor.name, shape: tensor.shape };
    if (tensor.dtype === "i32" || tensor.dtype === "i8") {
      const words = new Int32Array(elementsOf(tensor));
      fillSeeded(words, seed, i, tensor);
      return { ...named, data: new Float32Array(0), words };
    }
    const data = new Float32Array(elementsOf(tensor));
    fillSeeded(data, seed, i, tensor);
    return { ...named, data };
  });
  return { ...parsedKey(workload), inputs, output: reference.tensors.at(-1) as Task["output"] };
}

const ENTRIES = 1024;
/** A prime above most extents, so that entries fall into all rows and columns. */
const STRIDE = 7_368_787;
const ERF_TERMS = 12;

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

/** Weights with one scale, and weights of 4 bits in a word. */
const BLOCK = 32;
const PER_WORD = 8;
const ZERO = 8;

/** One entry of a product with weights of 4 bits, eight to a word, the first in the lowest bits. */
const quantisedEntry: Entry = ({ inputs, output }, index) => {
  const [left, right, scales] = inputs as [PeerTensor, PeerTensor, PeerTensor];
  const words = right.words as Int32Array;
  const k = left.shape.at(-1) as number;
  const n = output.shape.at(-1) as number;
  const [row, column] = [Math.floor(index / n), index % n];
  let sum = 0;
  for (let i = 0; i < k; i++) {
    const word = words[(column * k) / PER_WORD + Math.floor(i / PER_WORD)] as number;
    const weight = ((word >>> (4 * (i % PER_WORD))) & 15) - ZERO;
    const scale = scales.data[(column * k) / BLOCK + Math.floor(i / BLOCK)] as number;
    sum += (left.data[row * k + i] as number) * weight * scale;
  }
  return sum;
};

const BYTES = 4;

/** One entry of a product of bytes: activations four to a word, weights [n, k], sums exact. */
const integerEntry: Entry = ({ inputs, output }, index) => {
  const [left, right, leftScale, leftZero, rightScale, sums] = inputs;
  const words = left?.words as Int32Array;
  const weights = right?.words as Int32Array;
  const zero = leftZero?.words?.[0] as number;
  const k = right?.shape.at(-1) as number;
  const n = output.shape.at(-1) as number;
  const [row, column] = [Math.floor(index / n), index % n];
  let sum = -zero * (sums?.words?.[column] as number);
  for (let i = 0; i < k; i++) {
    const word = words[(row * k + i - (i % BYTES)) / BYTES] as number;
    sum += ((word >>> (8 * (i % BYTES))) & 255) * (weights[column * k + i] as number);
  }
  const scale = (leftScale?.data[0] as number) * (rightScale?.data[column] as number);
  return sum * scale;
};

const rowOf = ({ inputs }: Task, index: number): [Float32Array, number] => {
  const { data, shape } = inputs[0] as PeerTensor;
  const n = shape.at(-1) as number;
  const start = Math.floor(index / n) * n;
  return [data.subarray(start, start + n), index - start];
};

const sumOf = (row: Float32Array, term: (value: number) => number): number =>
  row.reduce((sum, value) => sum + term(value), 0);

const softmaxEntry: Entry = (task, index) => {
  const [row, at] = rowOf(task, index);
  return Math.exp(row[at] as number) / sumOf(row, Math.exp);
};

const layerNormEntry: Entry = (task, index) => {
  const [row, at] = rowOf(task, index);
  const mean = sumOf(row, (value) => value) / row.length;
  const variance = sumOf(row, (value) => (value - mean) ** 2) / row.length;
  const [gamma, beta] = task.inputs.slice(1).map(({ data }) => data[at] as number);
  const scaled = ((row[at] as number) - mean) / Math.sqrt(variance + VARIANCE_FLOOR);
  return scaled * (gamma ?? 1) + (beta ?? 0);
};

const addEntry: Entry = (task, index) => {
  const [left, right] = twoOf(task);
  return (left.data[index] as number) + (right.data[index] as number);
};

/** Sums the series of erf, of which seeded inputs of at most 1/2 need few terms. */
const geluEntry: Entry = ({ inputs }, index) => {
  const x = (inputs[0] as PeerTensor).data[index] as number;
  const z = x * Math.SQRT1_2;
  let [term, sum] = [z, z];
  for (let i = 1; i < ERF_TERMS; i++) {
    term *= -(z * z) / i;
    sum += term / (2 * i + 1);
  }
  return 0.5 * x * (1 + (2 / Math.sqrt(Math.PI)) * sum);
};

/** One entry of a convolution: image [b, h, w, c], weights [kh, kw, c, o], zeros around. */
const convolutionEntry: Entry = (task, index) => {
  const [image, weights] = twoOf(task);
  const [, height = 1, width = 1, channels = 1] = image.shape;
  const [rows = 1, columns = 1, , outputs = 1] = weights.shape;
  const [, outHeight = 1, outWidth = 1] = task.output.shape;
  const { stride = Number.NaN, pad = Number.NaN } = task.given;
  const pixel = Math.floor(index / outputs);
  const top = (Math.floor(pixel / outWidth) % outHeight) * stride - pad;
  const left = (pixel % outWidth) * stride - pad;
  const batch = Math.floor(pixel / (outWidth * outHeight));
  let sum = 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const [y, x] = [top + row, left + column];
      if (y < 0 || y >= height || x < 0 || x >= width) continue;
      const from = ((batch * height + y) * width + x) * channels;
      const of = (row * columns + column) * channels * outputs + (index % outputs);
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
  matmul_q4: quantisedEntry,
  matmul_u8i8: integerEntry,
  conv2d: convolutionEntry,
  softmax: softmaxEntry,
  layer_norm: layerNormEntry,
  add: addEntry,
  gelu: geluEntry,
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
