import type { OpenDevice } from "../gpu/device.js";
import { loadProgram } from "../gpu/load.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire } from "../wire/types.js";
import { Lru } from "./lru.js";

/** Compiled kernels of a device, by content. */
export type LoadProgram = (open: OpenDevice, kernel: KernelWire) => Promise<Program>;

/** Enough for a lease of 16, its reference and the finalists. */
const KEPT = 32;

/** Fetches and compiles each kernel once for a device; failures are not kept. */
export function cachedPrograms(origin: URL, signal: AbortSignal): LoadProgram {
  const devices = new WeakMap<OpenDevice, Lru<string, Promise<Program>>>();
  return (open, kernel) => {
    const programs = devices.get(open) ?? new Lru<string, Promise<Program>>(KEPT);
    devices.set(open, programs);
    const kept = programs.get(kernel.sha256);
    if (kept !== undefined) return kept;
    const loading = loadProgram(open, origin, kernel, signal);
    programs.set(kernel.sha256, loading);
    loading.catch(() => programs.delete(kernel.sha256));
    return loading;
  };
}
