import { KernelZooError } from "../engine/error.js";

/** A first request starts the browser's GPU process; one that crashed may never answer. */
const LIMIT_MS = 5_000;

/**
 * The adapter that kernels run on; the device id is made from this one too. An adapter makes one
 * device, so each device needs a new one. Throws KernelZooError (profile) where there is none.
 */
export async function requestAdapter(limitMs = LIMIT_MS): Promise<GPUAdapter> {
  const { gpu } = (globalThis.navigator ?? {}) as Partial<NavigatorGPU>;
  if (gpu === undefined) {
    throw new KernelZooError("profile", "This browser has no WebGPU, or not in this page.");
  }
  const late = new Promise<null>((resolve) => setTimeout(resolve, limitMs, null));
  const request = gpu.requestAdapter({ powerPreference: "high-performance" });
  const adapter = await Promise.race([request, late]);
  if (adapter === null) {
    throw new KernelZooError("profile", "WebGPU gives no adapter: the browser blocks this GPU.");
  }
  return adapter;
}
