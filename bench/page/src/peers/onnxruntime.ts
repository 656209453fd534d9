import * as ort from "onnxruntime-web/wasm";
import { maxDifference } from "../../../../client/src/engine/difference.js";
import { type Entrant, warmAsync } from "../contestant.js";
import { asOurs, laid, model } from "./onnx-operators.js";
import type { Problem } from "./problem.js";

/** Takes effect with the first session. */
export function setOnnxRuntime(threads: number): void {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = "/onnxruntime-web/";
  ort.env.logLevel = "error";
}

async function entrant(
  name: string,
  problem: Problem,
  constants: number,
  threads: number,
  stepMs: number,
): Promise<Entrant> {
  const own = laid(problem);
  const { bytes, fed } = model(problem, own, constants);
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const feeds = Object.fromEntries(
    fed.map((each) => [each.name, new ort.Tensor("float32", each.data.slice(), each.shape)]),
  );
  const outputs = await session.run(feeds);
  const data = outputs[problem.output.name]?.data as Float32Array;
  const difference = maxDifference(asOurs(data, own), problem.output.data);
  const timed = await warmAsync(async () => void (await session.run(feeds)), stepMs);
  const { flops } = problem;
  return { name, threads, flops, difference, timed, dispose: () => void session.release() };
}

/**
 * Opens the engine with every tensor fed, and, where there is more than one, once more with all but
 * the first held by the model, as weights are. A fed tensor is copied on every run.
 */
export async function onnxRuntimeEntrants(
  problem: Problem,
  threads: number,
  stepMs: number,
): Promise<readonly Entrant[]> {
  const weights = problem.inputs.length - 1;
  const fed = await entrant("ort-input", problem, 0, threads, stepMs);
  if (weights === 0) return [fed];
  return [fed, await entrant("ort-constant", problem, weights, threads, stepMs)];
}
