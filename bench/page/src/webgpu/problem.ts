/** A lease as peers see it, with the same inputs. */
import { fillSeeded } from "../../../../client/src/engine/verification.js";
import { elementsOf } from "../../../../client/src/engine/tensors.js";
import type { Lease } from "../../../../client/src/wire/types.js";
import { type PeerTensor, parsedKey, type Task } from "../peers/problem.js";

export function taskOf({ workload, seed, reference }: Lease): Task {
  const inputs: PeerTensor[] = reference.tensors.slice(0, -1).map((tensor, i) => {
    const data = new Float32Array(elementsOf(tensor));
    fillSeeded(data, seed, i, tensor);
    return { name: tensor.name, shape: tensor.shape, data };
  });
  return { ...parsedKey(workload), inputs, output: reference.tensors.at(-1) as Task["output"] };
}
