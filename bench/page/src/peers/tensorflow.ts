import { getThreadsCount, setThreadsCount, setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import * as tf from "@tensorflow/tfjs-core";
import { maxDifference } from "../../../../client/src/engine/compare.js";
import { type Entrant, warmAsync } from "../contestant.js";
import { type Problem, VARIANCE_FLOOR } from "./problem.js";

type Operation = (inputs: readonly tf.Tensor[], given: Problem["given"]) => tf.Tensor;

const product: Operation = ([a, b]) => tf.matMul(a as tf.Tensor, b as tf.Tensor);

const convolution: Operation = ([image, weights], { s = 1, p = 0 }) =>
  tf.conv2d(image as tf.Tensor4D, weights as tf.Tensor4D, s, p, "NHWC");

/** It has no such kernel: layers are written like this, as its own library of layers does. */
const layerNorm: Operation = ([a, gain, shift]) =>
  tf.tidy(() => {
    const rest = tf.sub(a as tf.Tensor, tf.mean(a as tf.Tensor, 1, true));
    const variance = tf.mean(tf.square(rest), 1, true);
    const root = tf.rsqrt(tf.add(variance, VARIANCE_FLOOR));
    return tf.add(tf.mul(tf.mul(rest, root), gain as tf.Tensor), shift as tf.Tensor);
  });

const OPERATORS: Readonly<Record<string, Operation>> = {
  matmul: product,
  batch_matmul: product,
  conv2d: convolution,
  softmax: ([a]) => tf.softmax(a as tf.Tensor),
  layer_norm: layerNorm,
};

/** Answers how many threads it has: version 4.22 may keep to one. */
export async function setTensorFlow(threads: number): Promise<number> {
  setWasmPaths("/tfjs/");
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", threads > 1);
  setThreadsCount(threads);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no wasm backend here");
  return threads > 1 ? getThreadsCount() : 1;
}

/** Its operators run when they are called, so it is timed as ours are, without promises. */
export async function tensorFlowEntrant(
  problem: Problem,
  threads: number,
  stepMs: number,
): Promise<Entrant> {
  const operation = OPERATORS[problem.operator];
  if (operation === undefined) throw new Error(`TensorFlow.js has no ${problem.operator} here`);
  const inputs = problem.inputs.map(({ data, shape }) => tf.tensor(data.slice(), [...shape]));
  const first = operation(inputs, problem.given);
  const difference = maxDifference(first.dataSync() as Float32Array, problem.output.data);
  first.dispose();
  const call = (): void => operation(inputs, problem.given).dispose();
  const { calls } = await warmAsync(async () => call(), stepMs);
  const dispose = (): void => tf.dispose(inputs);
  const { flops } = problem;
  return { name: "tfjs", threads, flops, difference, timed: { calls, call }, dispose };
}
