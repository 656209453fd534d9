/** The target that kernels run on: what the page asks for, what works here, and what is advised. */
import { CompileDeadline, SharedDeadline } from "../backend/webgpu/deadlines.js";
import { DeviceOwner, OpenDevice } from "../backend/webgpu/device.js";
import { readGpuProfile } from "../device/gpu-profile.js";
import { readEngine } from "../device/hardware.js";
import { storedNotebook } from "../device/notebook.js";
import { KernelZooError, sentence } from "../engine/error.js";
import type { ManifestEntry, TargetKind } from "../wire/types.js";

/**
 * A GPU that died, whose device was lost or whose driver did not answer, is not tried again in this
 * tab: each try takes half a minute, or the memory of the machine. A reload would meet the same
 * kernel in the same driver; a new tab may try again.
 */
const notes = storedNotebook(() => sessionStorage);
const NOTE = "gpu-failure";

/** Says why WebAssembly runs in place of the GPU; null while the GPU lives. */
export const gpuFailure = (): string | null => notes.read(NOTE);

/** Gives the GPU up, and says so once. */
export function giveUpGpu(why: string): void {
  if (gpuFailure() !== null) return;
  const reason = `${why} WebAssembly runs in its place in this tab.`;
  notes.write(NOTE, reason);
  console.warn(`kernelzoo: ${reason}`);
}

/** Gives the GPU up where the error says that it did not answer; answers whether it did so. */
export function noteHang(thrown: unknown): boolean {
  const late =
    thrown instanceof CompileDeadline ||
    thrown instanceof SharedDeadline ||
    (thrown instanceof KernelZooError && thrown.stage === "timeout");
  if (late) giveUpGpu(thrown.message);
  return late;
}

/** Gives the GPU up with its device, unless somebody destroyed that on purpose. */
export function watchForLoss(device: GPUDevice): void {
  device.lost.then(({ reason, message }) => {
    if (reason !== "destroyed") giveUpGpu(`The GPU device was lost: ${message || reason}`);
  });
}

/** `auto` does what the zoo advises for each workload. */
export type Backend = "auto" | TargetKind;
export const BACKENDS: readonly Backend[] = ["auto", "wasm", "webgpu", "javascript"];

/** The GPU of a zoo. `close` gives up its device, unless it is the page's own. */
export interface Gpu {
  readonly kind: "gpu";
  readonly owner: DeviceOwner;
  readonly deviceClass: string;
  /** Register-only limit. */
  readonly peakGflops: number;
  /** The bandwidth of its memory; 0 is unknown. */
  readonly bandwidthGbps: number;
  close(): void;
}

/** `reason` is null where nobody asked for a GPU. */
export type GpuSide = Gpu | { readonly kind: "none"; readonly reason: string | null };

/** The GPU while it lives. */
export function livingGpu(gpu: GpuSide): GpuSide {
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
    watchForLoss((await owner.device()).device);
    const device = { engine: readEngine(), deviceId };
    const { deviceClass, peakGflops, bandwidthGbps } = await readGpuProfile(
      storedNotebook(),
      device,
      owner,
    );
    return { kind: "gpu", owner, deviceClass, peakGflops, bandwidthGbps, close };
  } catch (thrown) {
    close();
    noteHang(thrown);
    return { kind: "none", reason: gpuFailure() ?? sentence(thrown) };
  }
}

/** `reason` says why it is not the target that was asked for or advised; null where it is. */
export interface TargetChoice {
  readonly target: TargetKind;
  readonly reason: string | null;
}

const noKernel = (target: TargetKind): string => `The zoo has no kernel of ${target} for this.`;

/** The target to run; where there is none of it, the other one. */
export function chooseTarget(backend: Backend, entry: ManifestEntry, gpu: GpuSide): TargetChoice {
  const target = backend === "auto" ? entry.advice.target : backend;
  if (target === "wasm") {
    if (entry.wasm !== null || gpu.kind === "none") return { target, reason: null };
    return { target: "webgpu", reason: noKernel("wasm") };
  }
  if (gpu.kind === "none") return { target: "wasm", reason: gpu.reason };
  if (entry.webgpu === null) return { target: "wasm", reason: noKernel("webgpu") };
  return { target, reason: null };
}
