/**
 * An application of transformers.js, as tests/browser/test_transformers.py asks for it. The import map of
 * its page decides what `onnxruntime-web` is: this text is the same for both.
 */
import { env, pipeline, RawImage } from "@huggingface/transformers";
import * as ort from "onnxruntime-web";

env.allowLocalModels = true;
env.allowRemoteModels = false;
env.localModelPath = "/models/";
env.useBrowserCache = false;
env.backends.onnx.wasm.wasmPaths = new URL("/onnxruntime-web/dist/", location.href).href;
env.backends.onnx.wasm.numThreads = 1;

/** Names the zoo, where the page is one with kernelzoo/ort. */
export function configure(settings) {
  ort.env.kernelzoo = { ...settings, fallback: () => import("onnxruntime-web-real") };
}

/** What a task is given as a file: an image of colours in waves, or a second of a tone. */
const GIVEN = {
  image: () => {
    const pixels = Uint8ClampedArray.from({ length: 32 * 32 * 3 }, (_, i) => (i * 37) % 256);
    return new RawImage(pixels, 32, 32, 3);
  },
  tone: () => Float32Array.from({ length: 16000 }, (_, i) => Math.sin(i / 9) * Math.cos(i / 800)),
};

/** Tensors as plain values. */
const plain = (output) =>
  JSON.parse(
    JSON.stringify(output, (_, value) =>
      value?.ort_tensor === undefined
        ? value
        : { dims: value.dims, type: value.type, data: Array.from(value.data, Number) },
    ),
  );

/** Runs a pipeline on each of `inputs`, and tells what ran its sessions in the last of them. */
export async function outputs(task, model, dtype, inputs, options = {}) {
  const run = await pipeline(task, model, { dtype, device: "wasm" });
  const found = [];
  for (const [first, ...others] of inputs) {
    found.push(plain(await run(GIVEN[first]?.() ?? first, ...others, options)));
  }
  const engines = Object.entries(run.model.sessions).map(([name, { kernelzoo }]) => [
    name,
    kernelzoo ?? null,
  ]);
  await run.dispose();
  const loaded = performance
    .getEntriesByType("resource")
    .filter(({ name }) => name.includes("/onnxruntime-web/"));
  return { outputs: found, engines: Object.fromEntries(engines), loaded: loaded.length };
}
