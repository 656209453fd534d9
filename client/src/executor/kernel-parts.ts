/** What a kernel is made of: itself, and the kernels that pack its weights. */
import type { ArtifactWire, KernelWire } from "../wire/types.js";

/** Itself first. */
export const partsOf = (kernel: KernelWire): readonly ArtifactWire[] => [
  kernel,
  ...kernel.layouts.map(({ pack }) => pack),
];

/** What packs an operand of a kernel; null where it is read as it lies. */
export function packOf(kernel: KernelWire, operand: number): ArtifactWire | null {
  const name = kernel.tensors[operand]?.name;
  return kernel.layouts.find((layout) => layout.tensor === name)?.pack ?? null;
}
