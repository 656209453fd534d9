/**
 * onnxruntime-web and TensorFlow.js on WebAssembly and one thread, for a page that times them beside
 * its own kernels. Their modules are read from `/onnxruntime-web/` and `/tfjs/` of the page's origin.
 */
import { version_core } from "@tensorflow/tfjs-core";
import * as ort from "onnxruntime-web/wasm";
import type { Entrant } from "./contestant.js";
import { onnxRuntimeEntrants, setOnnxRuntime } from "./peers/onnxruntime.js";
import { type PeerTensor, parsedKey } from "./peers/problem.js";
import { setTensorFlow, tensorFlowEntrant } from "./peers/tensorflow.js";

const THREADS = 1;
/** Sizes samples that the page takes for itself. */
const STEP_MS = 1;

/** `difference` is the largest from the given output; `repeat` resolves once so many calls ran. */
export interface Framework {
  readonly name: string;
  readonly difference: number | null;
  readonly repeat: (calls: number) => Promise<void>;
}

const framework = (name: string, { difference, timed }: Entrant): Framework => ({
  name,
  difference,
  repeat: async (calls) => {
    for (let i = 0; i < calls; i++) {
      if ("call" in timed) timed.call();
      else await timed.callAsync();
    }
  },
});

/** The workload of that key in each framework, warm, with these inputs in the key's order. */
export async function frameworks(
  key: string,
  flops: number,
  inputs: readonly PeerTensor[],
  output: PeerTensor,
): Promise<readonly Framework[]> {
  setOnnxRuntime(THREADS);
  await setTensorFlow(THREADS);
  const problem = { ...parsedKey(key), flops, inputs, output };
  // The last holds the weights in the model, as sites have them; fed tensors are copied on each run.
  const [onnxRuntime] = (await onnxRuntimeEntrants(problem, THREADS, STEP_MS)).slice(-1);
  const tensorFlow = await tensorFlowEntrant(problem, THREADS, STEP_MS);
  const found = [framework(`TensorFlow.js ${version_core}`, tensorFlow)];
  if (onnxRuntime === undefined) return found;
  return [framework(`onnxruntime-web ${ort.env.versions.web}`, onnxRuntime), ...found];
}
