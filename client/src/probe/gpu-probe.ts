/**
 * ρ of a GPU, its limit, its memory and its dispatches, by a suite that is fetched when it runs.
 */
import type { OpenDevice } from "../backend/webgpu/device.js";
import type { SuiteResult } from "./gpu-run.js";

/** Version of the suite in gpu-modules.ts, which gpu-run.ts runs. */
export const GPU_SUITE = 102;

/** `rho` is `r<suite>-<bits>`, bit i for primitive i. */
export interface GpuProbeResult extends Omit<SuiteResult, "bits"> {
  readonly rho: string;
}

/**
 * Measures ρ and the levels of a GPU. Most of the time is compiling: under a second on a GPU.
 * Throws KernelZooError.
 */
export async function probeGpu(open: OpenDevice): Promise<GpuProbeResult> {
  // Most page loads do not need its thirty kilobytes of text.
  const { runSuite } = await import("./gpu-run.js");
  const { bits, ...rates } = await runSuite(open);
  return { rho: `r${GPU_SUITE}-${bits}`, ...rates };
}
