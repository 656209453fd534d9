/** onnxruntime-web in a worker, given the ONNX file, on either of its providers. */
import type * as Ort from "onnxruntime-web/wasm";
import { bytesAt, type Entries, type Fed, type Network, valuesOf } from "./network.js";
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
    const tensorsOf = (feeds: readonly Fed[]) =>
      Object.fromEntries(
        feeds.map(({ name, dtype, shape, entries }) => {
          return [name, new ort.Tensor(dtype, entries as Float32Array, shape)];
        }),
      );
    const own = tensorsOf(
      inputs.map((each) => ({ ...each, entries: values[each.name] as Entries })),
    );
    return {
      name: `onnxruntime-web ${ort.env.versions.web ?? ""}`,
      run: async (feeds) => {
        const found = await session.run(feeds ? tensorsOf(feeds) : own);
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
