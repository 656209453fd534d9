import type { WebGPUBackend } from "@tensorflow/tfjs-backend-webgpu";
import "@tensorflow/tfjs-backend-webgpu";
import * as tf from "@tensorflow/tfjs-core";
import type { Peer } from "./peer.js";
import type { GpuProblem } from "./problem.js";

type Operation = (inputs: readonly tf.Tensor[]) => tf.Tensor;

const product: Operation = ([a, b]) => tf.matMul(a as tf.Tensor, b as tf.Tensor);

const OPERATORS: Readonly<Record<string, Operation>> = { matmul: product, batch_matmul: product };

export async function setTensorFlow(): Promise<void> {
  if (!(await tf.setBackend("webgpu"))) throw new Error("TensorFlow.js has no webgpu backend here");
}

/** Its tensors are on the GPU from the first call on. */
export async function tensorFlowPeer({ case: given, inputs }: GpuProblem): Promise<Peer> {
  const operation = OPERATORS[given.workload.split(":")[0] as string];
  if (operation === undefined) throw new Error(`TensorFlow.js has no ${given.workload} here`);
  const backend = tf.backend() as WebGPUBackend;
  const tensors = inputs.map(({ data, shape }) => tf.tensor(data, [...shape]));
  return {
    device: backend.device,
    call: () => operation(tensors).dispose(),
    settle: async () => {
      // It hands dispatches over in batches of 15; a read-back hands over the rest.
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      backend.submitQueue();
      await backend.queue.onSubmittedWorkDone();
    },
    output: async () => {
      const result = operation(tensors);
      const data = (await result.data()) as Float32Array;
      result.dispose();
      return data;
    },
    dispose: () => tf.dispose(tensors),
  };
}
