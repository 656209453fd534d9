/**
 * ρ of a GPU, its limit, its memory and its dispatches, by a suite that is fetched when it runs.
 */
import { BoundProgram } from "../gpu/bound-program.js";
import { storageBuffer } from "../gpu/buffers.js";
import type { OpenDevice } from "../gpu/device.js";
import { compileProgram } from "../gpu/program.js";
import { TIMER_TOOLS } from "../gpu/timer-tools.js";
import type { SuiteResult, Tools } from "./gpu-run.js";

/** Version of the suite in gpu-modules.ts, which gpu-run.ts runs. */
export const GPU_SUITE = 102;

/** `rho` is `r<suite>-<bits>`, bit i for primitive i. */
export interface GpuProbeResult extends Omit<SuiteResult, "bits"> {
  readonly rho: string;
}

const TOOLS: Omit<Tools, "faster" | "race"> = {
  BoundProgram,
  compileProgram,
  storageBuffer,
  ...TIMER_TOOLS,
};

/**
 * Measures ρ and the levels of a GPU. Most of the time is compiling: under a second on a GPU.
 * Throws KernelZooError.
 */
export async function probeGpu(open: OpenDevice): Promise<GpuProbeResult> {
  // Most page loads do not need its thirty kilobytes of text.
  const loading = [import("./gpu-run.js"), import("./probe.js")] as const;
  const [{ runSuite }, { faster, race }] = await Promise.all(loading);
  const { bits, ...rates } = await runSuite(open, { ...TOOLS, faster, race });
  return { rho: `r${GPU_SUITE}-${bits}`, ...rates };
}
