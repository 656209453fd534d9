/**
 * Chooses what a model runs on where the page has a GPU: the target that it asks for, or that the
 * zoo measured to be faster. Loaded by pages with a GPU.
 */
import { isAddressable } from "../backend/wasm/addresses.js";
import type { Backend } from "../sdk/backend.js";
import type { ModelAnswer } from "../wire/model-answer.js";
import type { Host } from "./host.js";
import type { Answered } from "./request.js";

/** Share of the time on WebAssembly that must be of calls that were timed on both targets. */
const KNOWN = 0.9;

/**
 * Sums the nanoseconds that the calls of each node of the model take; NaN where one of them was not
 * timed.
 */
function timesOf({ plan, kernels }: ModelAnswer): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  for (const { kernel, label } of plan.calls) {
    const own = kernels[plan.kernels[kernel] as string]?.timing?.best_ns ?? Number.NaN;
    times.set(label, (times.get(label) ?? 0) + own);
  }
  return times;
}

/**
 * Returns whether devices like this one measured the calls of the model to be faster on the GPU,
 * which may be given another plan of it.
 */
export function isFasterOnGpu(wasm: ModelAnswer, gpu: ModelAnswer): boolean {
  const fast = timesOf(gpu);
  let [onWasm, onGpu, known] = [0, 0, 0];
  for (const [label, slowNs] of timesOf(wasm)) {
    if (Number.isNaN(slowNs)) continue;
    const fastNs = fast.get(label) ?? Number.NaN;
    onWasm += slowNs;
    onGpu += Number.isNaN(fastNs) ? slowNs : fastNs;
    known += Number.isNaN(fastNs) ? 0 : slowNs;
  }
  return onGpu < onWasm && known >= KNOWN * onWasm;
}

/** Chooses the GPU where it is faster, and where it alone has room for the model. */
const suitsGpu = (wasm: ModelAnswer, gpu: ModelAnswer): boolean =>
  isAddressable(wasm.plan) ? isFasterOnGpu(wasm, gpu) : gpu.missing.length === 0;

/** Asks for the model on either target. Throws KernelZooError: network, manifest, signature. */
export async function chosen(
  host: Host,
  backend: Backend,
  onWasm: () => Promise<Answered>,
  onGpu: (deviceClass: string) => Promise<Answered>,
): Promise<Answered> {
  const { gpu } = host;
  const { forbidden } = host;
  if (gpu.kind === "none") {
    const wasm = await onWasm();
    return { ...wasm, reason: gpu.reason ?? wasm.reason ?? null };
  }
  const asked = onGpu(gpu.deviceClass);
  // A GPU is faster than JavaScript, measured or not.
  if (backend === "auto" && forbidden === null) {
    const [wasm, gpuAnswer] = await Promise.all([onWasm(), asked.catch(() => null)]);
    if (gpuAnswer !== null && suitsGpu(wasm.answer, gpuAnswer.answer)) {
      return { ...gpuAnswer, spare: async () => wasm };
    }
    return wasm;
  }
  const gpuAnswer = await asked.catch((thrown: unknown) => {
    if (backend === "auto") return null;
    throw thrown;
  });
  if (gpuAnswer === null) return onWasm();
  const [missing] = gpuAnswer.answer.missing;
  if (missing === undefined) return { ...gpuAnswer, spare: onWasm };
  return { ...(await onWasm()), reason: `The zoo has no kernel of webgpu for ${missing} yet.` };
}
