/** A workload with its inputs, seeded as an agent seeds them. */
import { fillSeeded } from "../../../../client/src/engine/seeded.js";
import { parsedKey, type Task } from "../peers/problem.js";
import type { GpuCase } from "./request.js";

const elementsOf = (shape: readonly number[]): number => shape.reduce((all, n) => all * n, 1);

export function taskOf({ workload, tensors, seed }: GpuCase): Task {
  const inputs = tensors.slice(0, -1).map(({ name, shape }, i) => {
    const data = new Float32Array(elementsOf(shape));
    fillSeeded(data, seed, i);
    return { name, shape, data };
  });
  return { ...parsedKey(workload), inputs, output: tensors.at(-1) as Task["output"] };
}
