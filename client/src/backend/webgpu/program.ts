/** A kernel as pipelines: fetched, checked and compiled. */
import { fetchText } from "../../engine/artifact.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { now } from "../../timing/clock.js";
import type { KernelWire, TensorWire } from "../../wire/types.js";
import type { OpenDevice } from "./device.js";
import { compiled } from "./pipeline-queue.js";

/** The description of a kernel: all that is known of it beside its text. */
export interface GpuKernelWire
  extends Pick<KernelWire, "candidate" | "requires" | "tensors" | "scratch_bytes" | "dispatches"> {
  /** The artifact, where it is one of a zoo. */
  readonly sha256?: string;
}

/** A compiled kernel: one pipeline for each dispatch, all of one layout. */
export interface Program {
  readonly open: OpenDevice;
  readonly kernel: GpuKernelWire;
  readonly pipelines: readonly GPUComputePipeline[];
  readonly tensors: GPUBindGroupLayout;
  /** The layout of the uniform that says where a slice begins; null of a program without one. */
  readonly firstWorkgroup: GPUBindGroupLayout | null;
  /** Milliseconds that the browser took to read the text, and the driver for its pipelines. */
  readonly compileMs: number;
}

/** The browser reads the text; no driver sees it yet. */
const LIMIT_MS = 30_000;
/** Size of the uniform that holds the first workgroup of a slice: one vec4. */
export const UNIFORM_BYTES = 16;

/** `GPUShaderStage.COMPUTE`, which is not defined where there is no WebGPU. */
const COMPUTE = 4;

/** Bindings in the order of ABI 1: tensors, then scratch where there is any. */
function tensorLayout(device: GPUDevice, kernel: GpuKernelWire): GPUBindGroupLayout {
  const types = kernel.tensors.map(({ role }) =>
    role === "input" ? ("read-only-storage" as const) : ("storage" as const),
  );
  const all = kernel.scratch_bytes > 0 ? [...types, "storage" as const] : types;
  return device.createBindGroupLayout({
    entries: all.map((type, binding) => ({ binding, visibility: COMPUTE, buffer: { type } })),
  });
}

function uniformLayout(device: GPUDevice): GPUBindGroupLayout {
  const buffer = {
    type: "uniform",
    hasDynamicOffset: true,
    minBindingSize: UNIFORM_BYTES,
  } as const;
  return device.createBindGroupLayout({ entries: [{ binding: 0, visibility: COMPUTE, buffer }] });
}

function refuseMissing(open: OpenDevice, kernel: GpuKernelWire): void {
  const missing = kernel.requires.filter((feature) => !open.features.includes(feature));
  if (missing.length === 0) return;
  const names = missing.join(" and ");
  throw new KernelZooError("validate", `Kernel ${kernel.candidate} needs ${names} of the GPU.`);
}

/** A text that the browser may not have read yet. */
interface ReadText {
  readonly module: GPUShaderModule;
  /** Rejects with KernelZooError (validate), with the first complaint and its line. */
  readonly valid: Promise<unknown>;
}

/**
 * Hands a text to the browser. A pipeline may be asked for at once, without waiting for the answer
 * of the browser's GPU process.
 */
function shaderModule(open: OpenDevice, { candidate }: GpuKernelWire, code: string): ReadText {
  const modules: GPUShaderModule[] = [];
  const scoped = open.scoped(
    () => modules.push(open.device.createShaderModule({ code })),
    LIMIT_MS,
  );
  const module = modules[0] as GPUShaderModule;
  const valid = scoped.catch(async (thrown: unknown) => {
    const { messages } = (await module?.getCompilationInfo()) ?? { messages: [] };
    const first = messages.find(({ type }) => type === "error");
    if (first === undefined) throw thrown;
    const where = `line ${first.lineNum}`;
    const text = `The browser rejects kernel ${candidate} at ${where}: ${first.message}`;
    throw new KernelZooError("validate", text, thrown);
  });
  valid.catch(() => undefined); // It is awaited where there is no pipeline.
  return { module, valid };
}

const isInvalid = (thrown: unknown): boolean =>
  (thrown as Partial<GPUPipelineError> | null)?.reason === "validation";

async function pipeline(
  { device }: OpenDevice,
  layout: GPUPipelineLayout,
  { module, valid }: ReadText,
  entryPoint: string,
): Promise<GPUComputePipeline> {
  try {
    return await device.createComputePipelineAsync({ layout, compute: { module, entryPoint } });
  } catch (cause) {
    await valid;
    const stage = isInvalid(cause) ? "validate" : "compile";
    throw new KernelZooError(stage, `No pipeline for ${entryPoint}: ${sentence(cause)}`, cause);
  }
}

async function pipelinesOf(
  open: OpenDevice,
  kernel: GpuKernelWire,
  layouts: readonly GPUBindGroupLayout[],
  code: string,
  limitMs: number | undefined,
): Promise<Pick<Program, "pipelines" | "compileMs">> {
  let text: ReadText | undefined;
  const layout = open.device.createPipelineLayout({ bindGroupLayouts: [...layouts] });
  const entries = [...new Set(kernel.dispatches.map(({ entry }) => entry))];
  let compileMs = 0;
  const make = async (entry: string): Promise<GPUComputePipeline> => {
    const start = now();
    text ??= shaderModule(open, kernel, code);
    const compiled = await pipeline(open, layout, text, entry);
    compileMs += now() - start;
    return compiled;
  };
  const byEntry = await Promise.all(
    entries.map((entry) => compiled(open, () => make(entry), limitMs)),
  );
  const pipelines = kernel.dispatches.map(({ entry }) => byEntry[entries.indexOf(entry)]);
  return { pipelines: pipelines as readonly GPUComputePipeline[], compileMs };
}

/**
 * Compiles a kernel, a few at a time, each within `limitMs` of the driver's time. `firstWorkgroup` is
 * null for a text without the uniform (`whole-program.ts`).
 * Throws KernelZooError: validate, compile, run when the device is lost, or profile when the driver
 * does not end what was given up.
 */
export async function compileProgram(
  open: OpenDevice,
  kernel: GpuKernelWire,
  code: string,
  limitMs?: number,
  firstWorkgroup: GPUBindGroupLayout | null = uniformLayout(open.device),
): Promise<Program> {
  refuseMissing(open, kernel);
  const tensors = tensorLayout(open.device, kernel);
  const layouts = [tensors, firstWorkgroup].filter((layout) => layout !== null);
  const pipelines = await pipelinesOf(open, kernel, layouts, code, limitMs);
  return { open, kernel, tensors, firstWorkgroup, ...pipelines };
}

/** A program of the SDK's own: its bindings by name, in their order, and its dispatches. */
export interface OwnProgram extends Pick<GpuKernelWire, "candidate" | "dispatches"> {
  readonly bindings: Readonly<Record<string, TensorWire["role"]>>;
  readonly code: string;
}

/** Throws as `compileProgram`. */
export function compileOwn(
  open: OpenDevice,
  { candidate, dispatches, bindings, code }: OwnProgram,
  limitMs: number,
): Promise<Program> {
  const tensors = Object.entries(bindings).map(([name, role]): TensorWire => {
    // What layouts are made of is the role alone.
    return { name, role, dtype: "f32", shape: [4], limit: 0 };
  });
  const kernel = { candidate, requires: [], tensors, scratch_bytes: 0, dispatches };
  return compileProgram(open, kernel, code, limitMs);
}

/** Fetches, checks and compiles. Rejects with KernelZooError. */
export async function loadProgram(
  open: OpenDevice,
  origin: URL,
  kernel: KernelWire,
  signal?: AbortSignal,
): Promise<Program> {
  return compileProgram(open, kernel, await fetchText(origin, kernel, signal));
}
