/** onnxruntime-web, given the ONNX file. */
import * as ort from "onnxruntime-web/wasm";
import { bytesAt, type Network, valuesOf } from "./network.js";
import { type Opened, serveSession } from "./session.js";

async function open(network: Network, threads: number): Promise<Opened> {
  const { onnx, dimensions, inputs } = network;
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = new URL("/onnxruntime-web/", location.origin).href;
  ort.env.logLevel = "error";
  const [model, values] = await Promise.all([bytesAt(onnx), valuesOf(inputs)]);
  const session = await ort.InferenceSession.create(new Uint8Array(model), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
    freeDimensionOverrides: dimensions,
  });
  const feeds = Object.fromEntries(
    inputs.map(({ name, dtype, shape }) => {
      return [name, new ort.Tensor(dtype, values[name] as Float32Array, shape)];
    }),
  );
  return {
    name: `onnxruntime-web ${ort.env.versions.web ?? ""}`,
    run: async () => {
      const found = await session.run(feeds);
      return Object.fromEntries(
        Object.entries(found).map(([name, { data }]) => [name, data as Float32Array<ArrayBuffer>]),
      );
    },
  };
}

serveSession(open);
