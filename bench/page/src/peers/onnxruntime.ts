import * as ort from "onnxruntime-web/wasm";
import { maxDifference } from "../../../../client/src/engine/compare.js";
import { type Entrant, warmAsync } from "../contestant.js";
import { onnxModel } from "./onnx-model.js";
import type { PeerTensor, Problem } from "./problem.js";

/** ONNX's name of each operator; its inputs are the workload's, in order. */
const OPERATORS: Readonly<Record<string, string>> = { matmul: "MatMul", batch_matmul: "MatMul" };

/** Takes effect with the first session. */
export function setOnnxRuntime(threads: number): void {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = "/onnxruntime-web/";
  ort.env.logLevel = "error";
}

function model({ operator, inputs, output }: Problem, constants: readonly PeerTensor[]) {
  const known = OPERATORS[operator];
  if (known === undefined) throw new Error(`no ONNX operator is named for ${operator}`);
  const fed = inputs.filter((tensor) => !constants.includes(tensor));
  const names = inputs.map(({ name }) => name);
  const node = { operator: known, inputs: names, output: output.name };
  return { bytes: onnxModel({ node, inputs: fed, constants, output }), fed };
}

async function entrant(
  name: string,
  problem: Problem,
  constants: readonly PeerTensor[],
  stepMs: number,
): Promise<Entrant> {
  const { bytes, fed } = model(problem, constants);
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const feeds = Object.fromEntries(
    fed.map((each) => [each.name, new ort.Tensor("float32", each.data.slice(), each.shape)]),
  );
  const outputs = await session.run(feeds);
  const own = outputs[problem.output.name]?.data as Float32Array;
  const difference = maxDifference(own, problem.output.data);
  const timed = await warmAsync(async () => void (await session.run(feeds)), stepMs);
  return { name, flops: problem.flops, difference, timed, dispose: () => void session.release() };
}

/**
 * Twice: with every tensor fed, and with all but the first held by the model, as weights are.
 * A fed tensor is copied on every run.
 */
export async function onnxRuntimeEntrants(
  problem: Problem,
  stepMs: number,
): Promise<readonly Entrant[]> {
  return [
    await entrant("ort-input", problem, [], stepMs),
    await entrant("ort-constant", problem, problem.inputs.slice(1), stepMs),
  ];
}
