/** onnxruntime-web in a worker, as sites have it whose page shall not block. */
import * as ort from "onnxruntime-web/wasm";
import { bytesAt, type Network, type Values, valuesOf } from "./network.js";

export type ToSession =
  | { readonly type: "open"; readonly network: Network; readonly threads: number }
  | { readonly type: "run" };

export type FromSession =
  | { readonly type: "ran"; readonly outputs: Values; readonly version: string }
  | { readonly type: "failed"; readonly message: string };

let session: ort.InferenceSession | null = null;
let feeds: Record<string, ort.Tensor> = {};

async function open({ onnx, dimensions, inputs }: Network, threads: number): Promise<void> {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = new URL("/onnxruntime-web/", location.origin).href;
  ort.env.logLevel = "error";
  const [model, values] = await Promise.all([bytesAt(onnx), valuesOf(inputs)]);
  session = await ort.InferenceSession.create(new Uint8Array(model), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
    freeDimensionOverrides: dimensions,
  });
  feeds = Object.fromEntries(
    inputs.map(({ name, dtype, shape }) => {
      return [name, new ort.Tensor(dtype, values[name] as Float32Array, shape)];
    }),
  );
}

async function run(): Promise<void> {
  if (session === null) throw new Error("no network is open");
  const found = await session.run(feeds);
  const outputs = Object.fromEntries(
    Object.entries(found).map(([name, { data }]) => [name, data as Float32Array<ArrayBuffer>]),
  );
  const answer: FromSession = { type: "ran", outputs, version: ort.env.versions.web ?? "" };
  const buffers = Object.values(outputs).map(({ buffer }) => buffer);
  postMessage(answer, { transfer: buffers });
}

globalThis.onmessage = async ({ data }: MessageEvent<ToSession>): Promise<void> => {
  try {
    if (data.type === "open") await open(data.network, data.threads);
    await run();
  } catch (thrown) {
    const answer: FromSession = { type: "failed", message: String(thrown) };
    postMessage(answer);
  }
};
