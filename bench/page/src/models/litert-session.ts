/** LiteRT.js, given what LiteRT's own converter made of the PyTorch module. A classic worker: its
 * loader calls importScripts. */
import { loadAndCompile, loadLiteRt, Tensor, type TypedArray } from "@litertjs/core";
import { version } from "@litertjs/core/package.json";
import { bytesAt, type Entries, type Network, valuesOf } from "./network.js";
import { type Opened, serveSession } from "./session.js";

const FILES = new URL("/litertjs/", location.origin).href;

/** Emscripten looks beside the worker's own script, unless it is told. */
function tellPlaces(): void {
  const Module = {
    locateFile: (name: string): string => FILES + name,
    mainScriptUrlOrBlob: `${FILES}litert_wasm_threaded_internal.js`,
  };
  Object.assign(globalThis, { Module });
}

/** The converter makes int32 of the integers that PyTorch counts by, and has no double numbers. */
function fed(entries: Entries): TypedArray {
  if (entries instanceof Float64Array) return Float32Array.from(entries);
  return entries instanceof BigInt64Array ? Int32Array.from(entries, Number) : entries;
}

async function open(network: Network, threads: number): Promise<Opened> {
  const { tflite, inputs, outputs } = network;
  if (tflite === null) throw new Error("LiteRT's converter has made nothing of this network");
  tellPlaces();
  await loadLiteRt(FILES, { threads: threads > 1 });
  const [bytes, values] = await Promise.all([bytesAt(tflite), valuesOf(inputs)]);
  const model = await loadAndCompile(new Uint8Array(bytes), {
    accelerator: "wasm",
    cpuOptions: { numThreads: threads },
  });
  return {
    name: `LiteRT.js ${version}`,
    run: async () => {
      const feeds = inputs.map(({ name, shape }) => {
        return new Tensor(fed(values[name] as Entries), [...shape]);
      });
      const found = await model.run(feeds);
      const answer: Record<string, Entries> = {};
      for (const [i, { name }] of outputs.entries()) {
        // What it answers may lie in memory of its own.
        answer[name] = Float32Array.from((await found[i]?.data()) as Float32Array);
      }
      for (const tensor of [...feeds, ...found]) tensor.delete();
      return answer;
    },
  };
}

serveSession(open);
