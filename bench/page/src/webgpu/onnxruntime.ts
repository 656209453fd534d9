import * as ort from "onnxruntime-web/jspi";
import { asOurs, laid, model } from "../peers/onnx-operators.js";
import type { PeerTensor, Task } from "../peers/problem.js";
import type { Peer } from "./peer.js";

type Feeds = Readonly<Record<string, ort.Tensor>>;

export const onnxRuntimeVersion = (): string => ort.env.versions.web ?? "unknown";

/** Takes effect with the first session. */
export function setOnnxRuntime(): void {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = new URL("onnxruntime-web/", document.baseURI).href;
  ort.env.logLevel = "error";
}

function bufferOf(device: GPUDevice, data: Float32Array): GPUBuffer {
  const { STORAGE, COPY_DST, COPY_SRC } = GPUBufferUsage;
  const size = Math.ceil(data.byteLength / 16) * 16;
  const buffer = device.createBuffer({ size, usage: STORAGE | COPY_DST | COPY_SRC });
  device.queue.writeBuffer(buffer, 0, data as Float32Array<ArrayBuffer>);
  return buffer;
}

function tensorOn(device: GPUDevice, { data, shape }: PeerTensor): ort.Tensor {
  const options = { dataType: "float32", dims: [...shape] } as const;
  return ort.Tensor.fromGpuBuffer(bufferOf(device, data), options);
}

const run = async (session: ort.InferenceSession, feeds: Feeds): Promise<ort.Tensor> =>
  Object.values(await session.run(feeds))[0] as ort.Tensor;

/** Inputs and output stay on the GPU; the weights of a convolution are the model's, as always. */
export async function onnxRuntimePeer(task: Task): Promise<Peer> {
  const own = laid(task);
  const { bytes, fed } = model(task, own, task.operator === "conv2d" ? 1 : 0);
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ["webgpu"],
    preferredOutputLocation: "gpu-buffer",
  });
  const device = (await ort.env.webgpu.device) as GPUDevice;
  const feeds = Object.fromEntries(fed.map((each) => [each.name, tensorOn(device, each)]));
  return {
    device,
    call: async () => (await run(session, feeds)).dispose(),
    settle: () => device.queue.onSubmittedWorkDone(),
    output: async () => {
      const result = await run(session, feeds);
      return asOurs((await result.getData(true)) as Float32Array, own);
    },
    dispose: () => {
      for (const tensor of Object.values(feeds)) (tensor.gpuBuffer as GPUBuffer).destroy();
      void session.release();
    },
  };
}
