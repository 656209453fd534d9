/** ρ of a GPU, its limit, its memory and its dispatches, by a suite that is fetched when it runs. */
import { BoundProgram } from "../gpu/bound.js";
import { storageBuffer } from "../gpu/buffers.js";
import type { OpenDevice } from "../gpu/device.js";
import { compileProgram } from "../gpu/program.js";
import { TIMER_TOOLS } from "../gpu/timer-tools.js";
import { faster } from "./duel.js";
import { GPU_SUITE } from "./gpu-suite.js";
import { race } from "./race.js";

/**
 * `rho` as `r<suite>-<bits>`, bit i for primitive i. Rates are of the whole GPU; 0 is unknown. A
 * probe that did not settle is worth repeating at the next visit.
 */
export interface GpuProbeResult {
  readonly rho: string;
  readonly peakGflops: number;
  readonly bandwidthGbps: number;
  readonly dispatchUs: number;
  readonly settled: boolean;
}

/** What the suite shares with kernels: it is given them, as its file would fetch them again. */
const TOOLS = {
  BoundProgram,
  compileProgram,
  faster,
  race,
  storageBuffer,
  ...TIMER_TOOLS,
} as const;

export type Tools = typeof TOOLS;

/**
 * Measures ρ and the levels of a GPU. Most of the time is compiling: under a second on a GPU. An
 * adapter that the browser falls back to is a processor, which has other work: its bits are all 0,
 * and its memory is what the probe of wasm has measured. Throws KernelZooError.
 */
export async function probeGpu(open: OpenDevice): Promise<GpuProbeResult> {
  // Most page loads do not need its thirty kilobytes of text.
  const { runSuite } = await import("./gpu-run.js");
  const { bits, ...rates } = await runSuite(open, TOOLS);
  return { rho: `r${GPU_SUITE}-${bits}`, ...rates };
}
