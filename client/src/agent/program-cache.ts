import type { OpenDevice } from "../gpu/device.js";
import { loadProgram } from "../gpu/load.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire } from "../wire/types.js";
import { type Keep, keptPromises } from "./kept.js";
import { KEPT } from "./module-cache.js";

/** Compiled kernels of a device, by content. */
export type LoadProgram = (open: OpenDevice, kernel: KernelWire) => Promise<Program>;

/** Fetches and compiles each kernel once for a device. */
export function cachedPrograms(origin: URL, signal: AbortSignal): LoadProgram {
  const devices = new WeakMap<OpenDevice, Keep<Program>>();
  return (open, kernel) => {
    const keep = devices.get(open) ?? keptPromises<Program>(KEPT);
    devices.set(open, keep);
    return keep(kernel.sha256, () => loadProgram(open, origin, kernel, signal));
  };
}
