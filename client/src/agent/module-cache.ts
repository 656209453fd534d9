import { loadModule } from "../engine/artifact.js";
import type { ArtifactWire } from "../wire/types.js";
import { Lru } from "./lru.js";

/** Compiled kernels, and pack kernels, by content. */
export type LoadKernel = (kernel: ArtifactWire) => Promise<WebAssembly.Module>;

/** Enough for a lease of 16, its reference and the finalists. */
const KEPT = 32;

/** Fetches and compiles each kernel once while it stays among the last used; failures are not kept. */
export function cachedLoader(origin: URL, signal: AbortSignal): LoadKernel {
  const modules = new Lru<string, Promise<WebAssembly.Module>>(KEPT);
  return (kernel) => {
    const kept = modules.get(kernel.sha256);
    if (kept !== undefined) return kept;
    const loading = loadModule(origin, kernel, signal);
    modules.set(kernel.sha256, loading);
    loading.catch(() => modules.delete(kernel.sha256));
    return loading;
  };
}
