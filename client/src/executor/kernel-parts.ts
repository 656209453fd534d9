/** Names the parts of a kernel: itself, and the kernels that pack its weights. */
import type { ArtifactWire, KernelWire } from "../wire/types.js";

/** Returns the kernel itself first, then those that pack its weights. */
export const partsOf = (kernel: KernelWire): readonly ArtifactWire[] => [
  kernel,
  ...kernel.layouts.map(({ pack }) => pack),
];

/** Returns the kernel that packs an operand; null where it is read as it lies. */
export function packOf(kernel: KernelWire, operand: number): ArtifactWire | null {
  const name = kernel.tensors[operand]?.name;
  return kernel.layouts.find((layout) => layout.tensor === name)?.pack ?? null;
}
