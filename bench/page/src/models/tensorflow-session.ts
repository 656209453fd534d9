/** TensorFlow.js on WebAssembly, given a network step by step in its own operators. */
import { setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import * as tf from "@tensorflow/tfjs-core";
import { bytesAt, type Entries, type Network, type Step, valuesOf } from "./network.js";
import { type Opened, serveSession } from "./session.js";

/** Values of a run by their names; images with channels last. */
type Values = ReadonlyMap<string, tf.Tensor>;

/** Answers what the step computes of its inputs and weights. */
function computed(step: Step, inputs: readonly tf.Tensor[], weights: readonly tf.Tensor[]) {
  const { operator, stride, pad, window, activation } = step;
  const [x, other] = inputs as [tf.Tensor4D, tf.Tensor];
  const [filter, bias] = weights as [tf.Tensor4D, tf.Tensor1D];
  const fused = { x, filter, bias, strides: stride, pad, activation };
  switch (operator) {
    case "conv":
      return tf.fused.conv2d(fused);
    case "depthwise":
      return tf.fused.depthwiseConv2d(fused);
    case "product": {
      const [a, b] = [x, filter] as unknown as [tf.Tensor2D, tf.Tensor2D];
      return tf.fused.matMul({ a, b, bias, activation });
    }
    case "add":
      return activated(tf.add(x, other), activation);
    case "maxPool":
      return activated(tf.maxPool(x, window, stride, pad), activation);
    case "mean":
      return activated(tf.mean(x, [1, 2]), activation);
    default:
      return operator satisfies never;
  }
}

function activated(x: tf.Tensor, activation: Step["activation"]): tf.Tensor {
  if (activation === "linear") return x;
  return activation === "relu" ? tf.relu(x) : tf.relu6(x);
}

async function open({ tensorflow, inputs, outputs }: Network, threads: number): Promise<Opened> {
  if (tensorflow === null) throw new Error("this network has no form for TensorFlow.js");
  if (threads > 1) throw new Error("TensorFlow.js keeps to one thread");
  setWasmPaths(new URL("/tfjs/", location.origin).href);
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", false);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no wasm backend here");
  const [bytes, values] = await Promise.all([bytesAt(tensorflow.weights), valuesOf(inputs)]);
  const steps = tensorflow.steps.map((step) => ({
    step,
    weights: step.weights.map(({ offset, shape }) => {
      const size = shape.reduce((product, extent) => product * extent, 1);
      return tf.tensor(new Float32Array(bytes, 4 * offset, size), [...shape]);
    }),
  }));
  const fed = (): Values =>
    new Map(
      inputs.map(({ name, shape }) => {
        const image = tf.tensor(values[name] as Float32Array, [...shape]);
        return [name, tf.transpose(image, [0, 2, 3, 1])] as const;
      }),
    );
  const run = (): readonly tf.Tensor[] =>
    tf.tidy(() => {
      const known = new Map(fed());
      for (const { step, weights } of steps) {
        const operands = step.inputs.map((name) => known.get(name) as tf.Tensor);
        known.set(step.output, computed(step, operands, weights));
      }
      return outputs.map(({ name }) => known.get(name) as tf.Tensor);
    });
  return {
    name: `TensorFlow.js ${tf.version_core}`,
    run: async () => {
      const found = run();
      const answer: Record<string, Entries> = {};
      for (const [i, { name }] of outputs.entries()) {
        answer[name] = Float32Array.from((await found[i]?.data()) as Float32Array);
      }
      tf.dispose([...found]);
      return answer;
    },
  };
}

serveSession(open);
