/** Compiles kernels of WebAssembly. */
import type { ArtifactWire, KernelWire } from "../wire/types.js";
import { fetchArtifact } from "./artifact.js";
import { KernelZooError, sentence } from "./error.js";
import { loadPacks, type Packable } from "./packing.js";

/**
 * Validates and compiles a kernel.
 * Throws KernelZooError: validate for bytes that this engine cannot read, compile otherwise.
 */
export async function compile(
  bytes: Uint8Array<ArrayBuffer>,
  artifact: ArtifactWire,
): Promise<WebAssembly.Module> {
  if (!WebAssembly.validate(bytes)) {
    const needs = artifact.requires.join(" and ") || "no optional feature";
    throw new KernelZooError(
      "validate",
      `This browser rejects ${artifact.url}, which requires ${needs}. Update it.`,
    );
  }
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw new KernelZooError("compile", `Compilation failed: ${sentence(cause)}`, cause);
  }
}

/** Fetches, checks and compiles. Errors as of `fetchArtifact` and `compile`. */
export async function loadModule(
  origin: URL,
  artifact: ArtifactWire,
  signal?: AbortSignal,
): Promise<WebAssembly.Module> {
  return compile(await fetchArtifact(origin, artifact, signal), artifact);
}

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
