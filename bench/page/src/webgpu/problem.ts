/** A workload with its inputs, and what its output must be. */
import { fillSeeded } from "../../../../client/src/engine/seeded.js";
import type { PeerTensor } from "../peers/problem.js";
import type { GpuCase } from "./request.js";

export interface GpuProblem {
  readonly case: GpuCase;
  readonly inputs: readonly PeerTensor[];
  readonly output: { readonly name: string; readonly shape: readonly number[] };
}

const elementsOf = (shape: readonly number[]): number => shape.reduce((all, n) => all * n, 1);

export function problemOf(given: GpuCase): GpuProblem {
  const tensors = given.tensors.slice(0, -1);
  const inputs = tensors.map(({ name, shape }, i) => {
    const data = new Float32Array(elementsOf(shape));
    fillSeeded(data, given.seed, i);
    return { name, shape, data };
  });
  return { case: given, inputs, output: given.tensors.at(-1) as GpuProblem["output"] };
}
