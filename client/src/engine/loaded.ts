import type { KernelWire } from "../wire/types.js";
import { loadModule } from "./artifact.js";
import { loadPacks, type Packable } from "./packing.js";

/** A kernel, and all that it takes to run it. */
export interface LoadedKernel extends Packable {
  readonly kernel: KernelWire;
  readonly module: WebAssembly.Module;
}

/** Fetches, checks and compiles. Throws KernelZooError: network, artifact, validate, compile. */
export async function loadWhole(
  origin: URL,
  kernel: KernelWire,
  signal?: AbortSignal,
): Promise<LoadedKernel> {
  const [module, packs] = await Promise.all([
    loadModule(origin, kernel, signal),
    loadPacks([kernel], (pack) => loadModule(origin, pack, signal)),
  ]);
  return { kernel, module, packs };
}
