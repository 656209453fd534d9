import { fetchArtifact } from "../engine/artifact.js";
import type { OpenDevice } from "../gpu/device.js";
import { compileProgram, type Program } from "../gpu/program.js";
import type { KernelWire } from "../wire/types.js";
import { Lru } from "./lru.js";

/** Compiled kernels of a device, by content. */
export type LoadProgram = (open: OpenDevice, kernel: KernelWire) => Promise<Program>;

/** Enough for a lease of 16, its reference and the finalists. */
const KEPT = 32;

/** Fetches and compiles each kernel once for a device; failures are not kept. */
export function cachedPrograms(origin: URL, signal: AbortSignal): LoadProgram {
  const decoder = new TextDecoder();
  const devices = new WeakMap<OpenDevice, Lru<string, Promise<Program>>>();
  return (open, kernel) => {
    const programs = devices.get(open) ?? new Lru<string, Promise<Program>>(KEPT);
    devices.set(open, programs);
    const kept = programs.get(kernel.sha256);
    if (kept !== undefined) return kept;
    const loading = fetchArtifact(origin, kernel, signal).then((bytes) =>
      compileProgram(open, kernel, decoder.decode(bytes)),
    );
    programs.set(kernel.sha256, loading);
    loading.catch(() => programs.delete(kernel.sha256));
    return loading;
  };
}
