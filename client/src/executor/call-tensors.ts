/** Checks that a kernel is of the tensors that its call has. */
import { KernelZooError } from "../engine/error.js";
import { plainTensors } from "../engine/packing.js";
import { elementsOf, productOf } from "../engine/tensors.js";
import type { PlanTensor, PlanWire } from "../wire/model-answer.js";
import type { KernelWire } from "../wire/types.js";
import { packOf } from "./kernel-parts.js";

/**
 * Throws KernelZooError (manifest) for a kernel that is of other tensors than its call. That of a
 * bucket takes the first entries of what is no weight.
 */
export function refuseMisfit(
  plan: PlanWire,
  call: Pick<PlanWire["calls"][number], "kernel" | "tensors">,
  kernel: KernelWire,
  isOfBucket = false,
): void {
  const plain = plainTensors(kernel);
  const fits = call.tensors.map((index, i) => {
    const { dtype, shape, weight } = plan.tensors[index] as PlanTensor;
    const elements = plain[i]?.dtype === dtype ? elementsOf(plain[i]) : Number.NaN;
    const all = productOf(shape);
    if (weight !== undefined) return elements === all;
    return (isOfBucket ? elements <= all : elements === all) && packOf(kernel, i) === null;
  });
  if (!fits.includes(false) && fits.length === plain.length) return;
  throw new KernelZooError(
    "manifest",
    `The kernel of ${plan.kernels[call.kernel]} is of other tensors. Import the model again.`,
  );
}
