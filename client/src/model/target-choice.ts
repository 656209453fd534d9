/**
 * Chooses what a model runs on where the page has a GPU, the target that it asks for, or that the zoo
 * measured to be faster; and holds it to the precision and the error that a page asks for. Loaded by
 * pages with a GPU, and by those that ask.
 */
import { isAddressable } from "../backend/wasm/addresses.js";
import { KernelZooError } from "../engine/error.js";
import type { Backend } from "../sdk/backend.js";
import type { ModelAnswer, Precision } from "../wire/model-answer.js";
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

export interface PrecisionOrder {
  readonly precision?: Precision | "auto";
  readonly maxError?: number;
}

const PRECISIONS: readonly unknown[] = ["auto", "f32", "int8", undefined];

/** Throws KernelZooError (run) for what is no precision, and no error. */
function refuseSenseless({ precision, maxError }: PrecisionOrder): void {
  if (!PRECISIONS.includes(precision)) {
    throw new KernelZooError("run", `precision is ${precision}; ask for auto, f32 or int8.`);
  }
  if (maxError !== undefined && !(maxError >= 0)) {
    const message = `maxError is ${maxError}; give a share of the largest output, such as 0.01.`;
    throw new KernelZooError("run", message);
  }
}

/** Nothing is off where the import kept the numbers of the file. The plan says it of itself. */
const errorOf = ({ plan }: ModelAnswer): number => plan.golden.storage_error ?? 0;

/**
 * Asks for a model until it is of the precision that is asked, and errs no more. Throws KernelZooError:
 * run for a senseless order, manifest where no plan is such, and what `ask` throws.
 */
export async function held(
  order: PrecisionOrder,
  ask: (precision?: Precision) => Promise<Answered>,
): Promise<Answered> {
  refuseSenseless(order);
  const { precision = "auto", maxError = Number.POSITIVE_INFINITY } = order;
  const answered =
    precision === "auto" ? await ask() : await ofPrecision(precision, () => ask(precision));
  const { name, precision: given = "its plan", precisions = [] } = answered.answer;
  const error = errorOf(answered.answer);
  if (error <= maxError) return answered;
  const other = precisions.find(({ error }) => (error ?? 0) <= maxError)?.precision;
  const off = `${given} is off by ${error.toPrecision(2)}`;
  if (other === undefined) {
    const remedy = "Allow more, or have the model added with --max-error, or with --f32.";
    const message = `No plan of ${name} errs by ${maxError} at most: ${off}. ${remedy}`;
    throw new KernelZooError("manifest", message);
  }
  const nearer = await ofPrecision(other, () => ask(other));
  const reason = `${off}, which is more than ${maxError}.`;
  return { ...nearer, answer: { ...nearer.answer, precision_reason: reason, precisions } };
}

/** Refuses a file on a static host that is of another precision. */
async function ofPrecision(asked: Precision, ask: () => Promise<Answered>): Promise<Answered> {
  const answered = await ask();
  const { name, precision } = answered.answer;
  if (precision === asked) return answered;
  const message = `This file of ${name} is of ${precision ?? "f32 or int8"}, not of ${asked}: open the file that is.`;
  throw new KernelZooError("manifest", message);
}
