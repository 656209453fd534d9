import type { WebGPUBackend } from "@tensorflow/tfjs-backend-webgpu";
import "@tensorflow/tfjs-backend-webgpu";
import * as tf from "@tensorflow/tfjs-core";
import type { Task } from "../peers/problem.js";
import { OPERATIONS } from "../peers/tensorflow-operations.js";
import type { Peer } from "./peer.js";

export const tensorFlowVersion = (): string => tf.version_core;

export async function setTensorFlow(): Promise<void> {
  if (!(await tf.setBackend("webgpu"))) throw new Error("TensorFlow.js has no webgpu backend here");
}

/** Its tensors are on the GPU from the first call on. */
export async function tensorFlowPeer({ operator, given, isF16, inputs }: Task): Promise<Peer> {
  if (isF16) throw new Error("TensorFlow.js has no float16");
  const operation = OPERATIONS[operator];
  if (operation === undefined) throw new Error(`TensorFlow.js has no ${operator} here`);
  const backend = tf.backend() as WebGPUBackend;
  const tensors = inputs.map(({ data, shape }) => tf.tensor(data, [...shape]));
  return {
    device: backend.device,
    call: () => operation(tensors, given).dispose(),
    settle: async () => {
      // It hands dispatches over in batches of 15; a read-back hands over the rest.
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      backend.submitQueue();
      await backend.queue.onSubmittedWorkDone();
    },
    output: async () => {
      const result = operation(tensors, given);
      const data = (await result.data()) as Float32Array;
      result.dispose();
      return data;
    },
    profileMs: async () => {
      const { kernelMs } = await tf.time(() => operation(tensors, given).dispose());
      return kernelMs as number;
    },
    dispose: () => tf.dispose(tensors),
  };
}
