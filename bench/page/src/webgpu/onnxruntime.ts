import * as ort from "onnxruntime-web/jspi";
import { fromFloat16, toFloat16 } from "../../../../client/src/engine/float16.js";
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

type Data = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

function bufferOf(device: GPUDevice, data: Data): GPUBuffer {
  const { STORAGE, COPY_DST, COPY_SRC } = GPUBufferUsage;
  const size = Math.ceil(data.byteLength / 16) * 16;
  const buffer = device.createBuffer({ size, usage: STORAGE | COPY_DST | COPY_SRC });
  device.queue.writeBuffer(buffer, 0, data);
  return buffer;
}

function tensorOn(device: GPUDevice, { data, shape }: PeerTensor, isF16: boolean): ort.Tensor {
  const dims = [...shape];
  const buffer = bufferOf(device, isF16 ? toFloat16(data) : (data as Float32Array<ArrayBuffer>));
  return isF16
    ? ort.Tensor.fromGpuBuffer(buffer, { dataType: "float16", dims })
    : ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims });
}

/** Returns values as float32; where a browser has `Float16Array`, float16 comes as one. */
const floats = (data: unknown): Float32Array =>
  data instanceof Uint16Array ? fromFloat16(data) : Float32Array.from(data as ArrayLike<number>);

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
  if (task.isF16 && !device.features.has("shader-f16")) {
    await session.release();
    throw new Error("onnxruntime-web computes in float16 by shader-f16, which this adapter lacks");
  }
  const feeds = Object.fromEntries(
    fed.map((each) => [each.name, tensorOn(device, each, task.isF16)]),
  );
  return {
    device,
    call: async () => (await run(session, feeds)).dispose(),
    settle: () => device.queue.onSubmittedWorkDone(),
    output: async () => {
      const result = await run(session, feeds);
      return asOurs(floats(await result.getData(true)), own);
    },
    dispose: () => {
      for (const tensor of Object.values(feeds)) (tensor.gpuBuffer as GPUBuffer).destroy();
      void session.release();
    },
  };
}
