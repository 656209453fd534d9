import { loadModule } from "../engine/artifact.js";
import type { ArtifactWire } from "../wire/types.js";
import { keptPromises } from "./kept.js";

/** Compiled kernels, and pack kernels, by content. */
export type LoadKernel = (kernel: ArtifactWire) => Promise<WebAssembly.Module>;

/** Enough for a lease of 16, its reference and the finalists. */
export const KEPT = 32;

/** Fetches and compiles each kernel once while it stays among the last used. */
export function cachedLoader(origin: URL, signal: AbortSignal): LoadKernel {
  const keep = keptPromises<WebAssembly.Module>(KEPT);
  return (kernel) => keep(kernel.sha256, () => loadModule(origin, kernel, signal));
}
