import { setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import * as tf from "@tensorflow/tfjs-core";
import { maxDifference } from "../../../../client/src/engine/compare.js";
import { type Entrant, warmAsync } from "../contestant.js";
import type { Problem } from "./problem.js";

type Operation = (inputs: readonly tf.Tensor[]) => tf.Tensor;

const product: Operation = ([a, b]) => tf.matMul(a as tf.Tensor, b as tf.Tensor);

const OPERATORS: Readonly<Record<string, Operation>> = { matmul: product, batch_matmul: product };

export async function setTensorFlow(threads: number): Promise<void> {
  setWasmPaths("/tfjs/");
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", threads > 1);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no wasm backend here");
}

/** Its operators run when they are called, so it is timed as ours are, without promises. */
export async function tensorFlowEntrant(problem: Problem, stepMs: number): Promise<Entrant> {
  const operation = OPERATORS[problem.operator];
  if (operation === undefined) throw new Error(`TensorFlow.js has no ${problem.operator} here`);
  const inputs = problem.inputs.map(({ data, shape }) => tf.tensor(data.slice(), [...shape]));
  const first = operation(inputs);
  const difference = maxDifference(first.dataSync() as Float32Array, problem.output.data);
  first.dispose();
  const call = (): void => operation(inputs).dispose();
  const { calls } = await warmAsync(async () => call(), stepMs);
  const dispose = (): void => tf.dispose(inputs);
  return { name: "tfjs", flops: problem.flops, difference, timed: { calls, call }, dispose };
}
