/** Workloads in TensorFlow.js, whatever its backend. */
import * as tf from "@tensorflow/tfjs-core";
import { type Task, VARIANCE_FLOOR } from "./problem.js";

export type Operation = (inputs: readonly tf.Tensor[], given: Task["given"]) => tf.Tensor;

const product: Operation = ([a, b]) => tf.matMul(a as tf.Tensor, b as tf.Tensor);

const convolution: Operation = ([image, weights], { stride = Number.NaN, pad = Number.NaN }) =>
  tf.conv2d(image as tf.Tensor4D, weights as tf.Tensor4D, stride, pad, "NHWC");

/** It has no such kernel: layers are written like this, as its own library of layers does. */
const layerNorm: Operation = ([a, gamma, beta]) =>
  tf.tidy(() => {
    const rest = tf.sub(a as tf.Tensor, tf.mean(a as tf.Tensor, 1, true));
    const variance = tf.mean(tf.square(rest), 1, true);
    const root = tf.rsqrt(tf.add(variance, VARIANCE_FLOOR));
    return tf.add(tf.mul(tf.mul(rest, root), gamma as tf.Tensor), beta as tf.Tensor);
  });

/** It has no such kernel either. */
const gelu: Operation = ([a]) =>
  tf.tidy(() => {
    const x = a as tf.Tensor;
    return tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));
  });

export const OPERATIONS: Readonly<Record<string, Operation>> = {
  matmul: product,
  batch_matmul: product,
  conv2d: convolution,
  add: ([a, b]) => tf.add(a as tf.Tensor, b as tf.Tensor),
  gelu,
  softmax: ([a]) => tf.softmax(a as tf.Tensor),
  layer_norm: layerNorm,
};
