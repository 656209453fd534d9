/** onnxruntime-web in a worker, given the ONNX file, on either of its providers. */
import type * as Ort from "onnxruntime-web/wasm";
import { bytesAt, type Network, valuesOf } from "./network.js";
import { serveSession } from "./session.js";

/** Answers the page's questions with one build of onnxruntime-web, whose files are in `folder`. */
export function serveOnnxRuntime(ort: typeof Ort, provider: "wasm" | "webgpu", folder: URL): void {
  serveSession(async ({ onnx, dimensions, inputs }: Network, threads: number) => {
    ort.env.wasm.numThreads = threads;
    ort.env.wasm.wasmPaths = folder.href;
    ort.env.logLevel = "error";
    const [model, values] = await Promise.all([bytesAt(onnx), valuesOf(inputs)]);
    const session = await ort.InferenceSession.create(new Uint8Array(model), {
      executionProviders: [provider],
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
          Object.entries(found).map(([name, { data }]) => [
            name,
            data as Float32Array<ArrayBuffer>,
          ]),
        );
      },
    };
  });
}
