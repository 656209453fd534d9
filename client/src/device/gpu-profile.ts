import type { DeviceOwner } from "../backend/webgpu/device.js";
import { GPU_SUITE, type GpuProbeResult, probeGpu } from "../probe/gpu-probe.js";
import { doubleOctave, octave } from "../probe/levels.js";
import type { GpuProbeLevels } from "../wire/types.js";
import { deviceClass } from "./hardware.js";
import type { Notebook } from "./notebook.js";
import { type Alone, type DeviceProfile, engineKey, noted } from "./profile.js";

/** The adapter tells these, and the probe measured them. */
export interface GpuProfile {
  readonly features: readonly string[];
  readonly rho: string;
  /** Register-only limit of the whole GPU. */
  readonly peakGflops: number;
  /** The bandwidth of its memory, as far as a copy reaches it; 0 is unknown. */
  readonly bandwidthGbps: number;
  readonly levels: GpuProbeLevels;
  readonly deviceClass: string;
}

/** The levels that leave the page. A dispatch counts as at least one microsecond. */
export function gpuLevelsOf(probe: GpuProbeResult): GpuProbeLevels {
  return {
    peak_gflops: octave(probe.peakGflops),
    bandwidth_gbps: doubleOctave(probe.bandwidthGbps),
    dispatch_us: Math.max(octave(probe.dispatchUs), 1),
  };
}

type Described = Pick<DeviceProfile, "engine" | "deviceId">;

const noteOf = ({ engine, deviceId }: Described): string =>
  `gpu-probe:${GPU_SUITE}:${deviceId}:${engineKey(engine)}`;

/** Returns whether an earlier visit probed the GPU, so that describing it takes no time. */
export const isGpuProbed = (notebook: Notebook, device: Described): boolean =>
  !!notebook.read(noteOf(device))?.includes('"settled":true');

/**
 * Describes this device's GPU. The probe runs once for an engine version and a set of features
 * and is noted, so the device class is the same at every page load.
 * Throws KernelZooError (profile) where there is no WebGPU.
 */
export async function readGpuProfile(
  notebook: Notebook,
  device: Described,
  owner: DeviceOwner,
  alone: Alone = (work) => work(),
): Promise<GpuProfile> {
  const open = await owner.device();
  const measure = (): Promise<GpuProbeResult> => alone(() => probeGpu(open));
  const probe = await noted(notebook, noteOf(device), measure, ({ settled }) => settled);
  return {
    features: open.features,
    rho: probe.rho,
    peakGflops: probe.peakGflops,
    bandwidthGbps: probe.bandwidthGbps,
    levels: gpuLevelsOf(probe),
    deviceClass: deviceClass(device.deviceId, probe.rho, open.features, "webgpu"),
  };
}
