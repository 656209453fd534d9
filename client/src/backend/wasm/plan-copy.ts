/**
 * A plan that is loaded, as another thread can run it: the memory as it is, and the calls with their
 * addresses in it. A page runs a short plan itself, as a message to the worker and back takes longer.
 */
import { productOf, type TensorView, viewOf } from "../../engine/tensors.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { PlanTensor, PlanWire, PortWire } from "../../wire/model-answer.js";
import { readyOf } from "./dispatch.js";
import { memoryOf, type Placement } from "./memory.js";
import { instantiateAll, type Linked } from "./program.js";

export interface PlanCopy {
  readonly modules: readonly Linked[];
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly places: Pick<Placement, "tasks" | "weights" | "activations" | "scratch">;
}

/** Entries of an input or an output, in the memory of a plan. */
export function portView(
  plan: PlanWire,
  { activations, weights }: Pick<Placement, "activations" | "weights">,
  memory: WebAssembly.Memory,
  { tensor, shape }: Pick<PortWire, "tensor" | "shape">,
): TensorView {
  const { dtype, at = 0, weight } = plan.tensors[tensor] as PlanTensor;
  const address = weight === undefined ? activations + at : (weights[weight]?.[0]?.address ?? 0);
  return viewOf(memory.buffer, dtype, address, productOf(shape));
}

/** Copies all that runs of a plan need; no weight may be on its way. */
export function planCopy(
  modules: readonly Linked[],
  memory: WebAssembly.Memory,
  { tasks, weights, activations, scratch, totalBytes }: Placement,
): PlanCopy {
  const bytes = new Uint8Array(totalBytes);
  bytes.set(new Uint8Array(memory.buffer, 0, totalBytes));
  return { modules, bytes, places: { tasks, weights, activations, scratch } };
}

/**
 * Returns a function that runs the whole plan at once, on this thread, and throws what a kernel
 * throws. Throws KernelZooError: memory, and compile where kernels do not start.
 */
export function runnerOf(
  plan: PlanWire,
  { modules, bytes, places }: PlanCopy,
): (feeds: readonly Stored[]) => readonly Stored[] {
  const memory = memoryOf(bytes.length);
  new Uint8Array(memory.buffer).set(bytes);
  const mains = instantiateAll(modules, memory);
  const calls = places.tasks.map((task) => {
    const { main, words } = readyOf(task, mains, places.scratch);
    const whole = [...words, 0, task.extent];
    return () => main(...whole);
  });
  const view = (port: PortWire): TensorView => portView(plan, places, memory, port);
  const [inputs, outputs] = [plan.inputs.map(view), plan.outputs.map(view)];
  return (feeds) => {
    for (const [i, input] of inputs.entries()) input.set(feeds[i] as Stored);
    for (const call of calls) call();
    return outputs.map((output) => output.slice() as Stored);
  };
}
