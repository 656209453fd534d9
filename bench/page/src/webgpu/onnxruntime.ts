import * as ort from "onnxruntime-web/jspi";
import { onnxModel } from "../peers/onnx-model.js";
import type { PeerTensor } from "../peers/problem.js";
import type { Peer } from "./peer.js";
import type { GpuProblem } from "./problem.js";

const OPERATORS: Readonly<Record<string, string>> = { matmul: "MatMul", batch_matmul: "MatMul" };

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

/** Inputs and output stay on the GPU. */
export async function onnxRuntimePeer({ case: given, inputs, output }: GpuProblem): Promise<Peer> {
  const operator = OPERATORS[given.workload.split(":")[0] as string];
  if (operator === undefined) throw new Error(`no ONNX operator is named for ${given.workload}`);
  const node = { operator, inputs: inputs.map(({ name }) => name), output: output.name };
  const model = onnxModel({ node, inputs, constants: [], output });
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ["webgpu"],
    preferredOutputLocation: "gpu-buffer",
  });
  const device = (await ort.env.webgpu.device) as GPUDevice;
  const feeds = Object.fromEntries(inputs.map((each) => [each.name, tensorOn(device, each)]));
  const run = async (): Promise<ort.Tensor> => {
    const outputs = await session.run(feeds);
    return outputs[output.name] as ort.Tensor;
  };
  return {
    device,
    call: async () => (await run()).dispose(),
    settle: () => device.queue.onSubmittedWorkDone(),
    output: async () => (await (await run()).getData(true)) as Float32Array,
    dispose: () => {
      for (const tensor of Object.values(feeds)) (tensor.gpuBuffer as GPUBuffer).destroy();
      void session.release();
    },
  };
}
