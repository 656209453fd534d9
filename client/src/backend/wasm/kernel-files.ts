/** Lists the files of a model's kernels: its linked module, and single ones that replace some. */
import { partsOf } from "../../executor/kernel-parts.js";
import type { ModelAnswer } from "../../wire/model-answer.js";
import type { ArtifactWire, KernelWire } from "../../wire/types.js";

/** A file of kernels, its hash, and which export is which artifact. */
export interface KernelFile extends Pick<ArtifactWire, "sha256" | "url"> {
  readonly functions: Readonly<Record<string, string>>;
}

/** Files that together have all of `kernels` and their pack kernels. */
export function kernelFiles(
  { module }: Pick<ModelAnswer, "module">,
  kernels: readonly KernelWire[],
): readonly KernelFile[] {
  const functions = module?.functions ?? {};
  const parts = new Map(kernels.flatMap(partsOf).map((part) => [part.sha256, part] as const));
  const alone = [...parts.values()].filter(({ sha256 }) => !Object.hasOwn(functions, sha256));
  return [
    ...(module === null || alone.length === parts.size ? [] : [module]),
    ...alone.map(({ sha256, url }) => ({ sha256, url, functions: { [sha256]: "main" } })),
  ];
}
