/** Which target a zoo's kernels run on: what the page asks for, what there is, what is advised. */

import { readEngine } from "../device/engine.js";
import { readGpuProfile } from "../device/gpu-profile.js";
import { storedNotebook } from "../device/notebook.js";
import { sentence } from "../engine/error.js";
import { OpenDevice } from "../gpu/device.js";
import { DeviceOwner } from "../gpu/owner.js";
import type { ManifestEntry, TargetKind } from "../wire/types.js";
import { gpuFailure, hung, watch } from "./gpu-health.js";

/** `auto` does what the zoo advises for each workload. */
export type Backend = "auto" | TargetKind;

/** The GPU of a zoo. `close` gives up its device, unless it is the page's own. */
export interface Gpu {
  readonly kind: "gpu";
  readonly owner: DeviceOwner;
  readonly deviceClass: string;
  /** Register-only limit. */
  readonly peakGflops: number;
  close(): void;
}

/** `reason` is null where nobody asked for a GPU. */
export type GpuSide = Gpu | { readonly kind: "none"; readonly reason: string | null };

/** The GPU while it lives. */
export function living(gpu: GpuSide): GpuSide {
  const reason = gpu.kind === "gpu" ? gpuFailure() : null;
  return reason === null ? gpu : { kind: "none", reason };
}

/** Opens the page's GPU, or says why not; the probe takes up to a second at the first visit. */
export async function openGpu(
  backend: Backend,
  deviceId: string,
  own: GPUDevice | undefined,
): Promise<GpuSide> {
  if (backend === "wasm") return { kind: "none", reason: null };
  const reason = gpuFailure();
  if (reason !== null) return { kind: "none", reason };
  const owner =
    own === undefined ? new DeviceOwner() : new DeviceOwner(async () => new OpenDevice(own));
  const close = (): void => {
    if (own === undefined) owner.dispose();
  };
  try {
    watch((await owner.device()).device);
    const device = { engine: readEngine(), deviceId };
    const { deviceClass, peakGflops } = await readGpuProfile(storedNotebook(), device, owner);
    return { kind: "gpu", owner, deviceClass, peakGflops, close };
  } catch (thrown) {
    close();
    hung(thrown);
    return { kind: "none", reason: gpuFailure() ?? sentence(thrown) };
  }
}

/** `reason` says why it is not the target that was asked for or advised; null where it is. */
export interface Choice {
  readonly target: TargetKind;
  readonly reason: string | null;
}

const noKernel = (target: TargetKind): string => `The zoo has no kernel of ${target} for this.`;

/** The target to run; where there is none of it, the other one. */
export function chooseTarget(backend: Backend, entry: ManifestEntry, gpu: GpuSide): Choice {
  const target = backend === "auto" ? entry.advice.target : backend;
  if (target === "wasm") {
    if (entry.wasm !== null || gpu.kind === "none") return { target, reason: null };
    return { target: "webgpu", reason: noKernel("wasm") };
  }
  if (gpu.kind === "none") return { target: "wasm", reason: gpu.reason };
  if (entry.webgpu === null) return { target: "wasm", reason: noKernel("webgpu") };
  return { target, reason: null };
}
