import { getThreadsCount, setThreadsCount, setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import * as tf from "@tensorflow/tfjs-core";
import { maxDifference } from "../../../../client/src/engine/difference.js";
import { type Entrant, warmAsync } from "../contestant.js";
import type { Problem } from "./problem.js";
import { OPERATIONS } from "./tensorflow-operations.js";

/** Answers how many threads it has: version 4.22 may keep to one. */
export async function setTensorFlow(threads: number): Promise<number> {
  setWasmPaths("/tfjs/");
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", threads > 1);
  setThreadsCount(threads);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no wasm backend here");
  return threads > 1 ? getThreadsCount() : 1;
}

/** Its operators run when they are called, so it is timed as ours are, without promises. */
export async function tensorFlowEntrant(
  problem: Problem,
  threads: number,
  stepMs: number,
): Promise<Entrant> {
  const operation = OPERATIONS[problem.operator];
  if (operation === undefined) throw new Error(`TensorFlow.js has no ${problem.operator} here`);
  const inputs = problem.inputs.map(({ data, shape }) => tf.tensor(data.slice(), [...shape]));
  const first = operation(inputs, problem.given);
  const difference = maxDifference(first.dataSync() as Float32Array, problem.output.data);
  first.dispose();
  const call = (): void => operation(inputs, problem.given).dispose();
  const { calls } = await warmAsync(async () => call(), stepMs);
  const dispose = (): void => tf.dispose(inputs);
  const { flops } = problem;
  return { name: "tfjs", threads, flops, difference, timed: { calls, call }, dispose };
}
