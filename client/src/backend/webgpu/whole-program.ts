/**
 * Programs that are never sliced. A kernel of ABI 1 begins at a workgroup that a uniform tells it,
 * so that a submission may hold a part of it. A token of a language model has hundreds of
 * dispatches: each would have that uniform bound, and would wait for it before it knows an address.
 */
import { fetchText } from "../../engine/artifact.js";
import type { KernelWire } from "../../wire/types.js";
import { type BoundCall, BoundProgram } from "./binding.js";
import type { OpenDevice } from "./device.js";
import { compileProgram, type GpuKernelWire, type Program } from "./program.js";

/** The uniform of ABI 1, and what stands in its place where all dispatches begin at the first. */
const FIRST_WORKGROUP = "@group(1) @binding(0) var<uniform> first: u32;";
const NO_UNIFORM = "const first = 0u;";

/** Returns whether all dispatches fit into one dimension each. */
export function runsWhole({ device }: OpenDevice, { dispatches }: GpuKernelWire): boolean {
  const most = device.limits.maxComputeWorkgroupsPerDimension;
  return dispatches.every(({ workgroups }) => workgroups <= most);
}

/** Throws as `compileProgram`. */
export const compileWhole = (
  open: OpenDevice,
  kernel: GpuKernelWire,
  code: string,
  limitMs?: number,
): Promise<Program> =>
  compileProgram(open, kernel, code.replace(FIRST_WORKGROUP, NO_UNIFORM), limitMs, null);

/** A program without the uniform, bound to its tensors. */
export class WholeProgram implements BoundCall {
  readonly program: Program;
  readonly slices = 1;
  readonly #tensors: GPUBindGroup;
  readonly #steps: readonly (readonly [GPUComputePipeline, number])[];

  /** `buffers` are those of ABI 1, in order; they stay the caller's. */
  constructor(program: Program, buffers: readonly GPUBuffer[]) {
    this.program = program;
    this.#tensors = program.open.device.createBindGroup({
      layout: program.tensors,
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    this.#steps = program.kernel.dispatches.map(({ workgroups }, i) => {
      return [program.pipelines[i] as GPUComputePipeline, workgroups];
    });
  }

  encode(pass: GPUComputePassEncoder): void {
    pass.setBindGroup(0, this.#tensors);
    for (const [pipeline, workgroups] of this.#steps) {
      pass.setPipeline(pipeline);
      pass.dispatchWorkgroups(workgroups);
    }
  }

  /** Does nothing, as it has no buffer of its own. */
  dispose(): void {}
}

/**
 * Fetches and compiles a kernel, without the uniform where its dispatches fit. Throws as
 * `loadProgram`.
 */
export async function loadWholeProgram(
  open: OpenDevice,
  origin: URL,
  kernel: KernelWire,
): Promise<Program> {
  const compile = runsWhole(open, kernel) ? compileWhole : compileProgram;
  return compile(open, kernel, await fetchText(origin, kernel));
}

/** A program with the uniform or without. `buffers` are those of ABI 1. */
export const boundTo = (program: Program, buffers: readonly GPUBuffer[]): BoundCall =>
  program.firstWorkgroup === null
    ? new WholeProgram(program, buffers)
    : new BoundProgram(program, buffers);
