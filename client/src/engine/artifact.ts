/** Fetches kernels, holds them to their hashes, and compiles those of wasm. */
import { gaveUp } from "../gateway/request.js";
import type { ArtifactWire, KernelWire } from "../wire/types.js";
import { digestOf } from "./bytes.js";
import { KernelZooError, sentence } from "./error.js";
import { loadPacks, type Packable } from "./packing.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** What `read` makes of the file at `url`. Throws KernelZooError: network, artifact (status). */
export async function download<T>(
  url: URL,
  read: (response: Response) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  try {
    const response = await fetch(url, signal === undefined ? {} : { signal });
    if (response.ok) return await read(response);
    throw new KernelZooError("artifact", `${url} answered ${response.status}. Reload the page.`);
  } catch (cause) {
    if (cause instanceof KernelZooError || gaveUp(signal)) throw cause;
    const message = `No answer from ${url.origin} (${sentence(cause)}). Is it running?`;
    throw new KernelZooError("network", message, cause);
  }
}

const bytesOf = async (response: Response): Promise<Bytes> =>
  new Uint8Array(await response.arrayBuffer());

/**
 * Fetches the bytes of `artifact` from `origin` and holds them to the manifest's SHA-256.
 * Throws KernelZooError: network, artifact (status or hash), with the reason; and an abort of the
 * page's own.
 */
export async function fetchArtifact(
  origin: URL,
  artifact: ArtifactWire,
  signal?: AbortSignal,
): Promise<Bytes> {
  // Relative, so that a bundle may lie in any folder.
  const url = new URL(`.${artifact.url}`, origin);
  const bytes = await download(url, bytesOf, signal);
  const digest = await digestOf(bytes);
  if (digest !== artifact.sha256) {
    const why = "A proxy changed it or sent a page.";
    const message = `${url} has SHA-256 ${digest}, not what the manifest says. ${why}`;
    throw new KernelZooError("artifact", message);
  }
  return bytes;
}

/**
 * Validates and compiles a kernel.
 * Throws KernelZooError: validate for bytes that this engine cannot read, compile otherwise.
 */
export async function compile(bytes: Bytes, artifact: ArtifactWire): Promise<WebAssembly.Module> {
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
