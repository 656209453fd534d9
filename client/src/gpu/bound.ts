import { filledBuffer } from "./buffers.js";
import { type Program, UNIFORM_BYTES } from "./program.js";
import { launches, planSlices, type SlicePlan } from "./slices.js";

/** A program bound to its tensors. A range is of slices, 0 ≤ lo ≤ hi ≤ `slices`. */
export class BoundProgram {
  readonly program: Program;
  readonly #plan: SlicePlan;
  readonly #most: number;
  readonly #stride: number;
  readonly #uniform: GPUBuffer;
  readonly #tensors: GPUBindGroup;
  readonly #firstWorkgroup: GPUBindGroup;

  /** `buffers` are those of ABI 1, in order; they stay the caller's. */
  constructor(program: Program, buffers: readonly GPUBuffer[]) {
    const { device } = program.open;
    const { maxComputeWorkgroupsPerDimension, minUniformBufferOffsetAlignment } = device.limits;
    this.program = program;
    this.#most = maxComputeWorkgroupsPerDimension;
    this.#stride = Math.max(minUniformBufferOffsetAlignment, UNIFORM_BYTES);
    const workgroups = program.kernel.dispatches.map((dispatch) => dispatch.workgroups);
    this.#plan = planSlices(workgroups, this.#most);
    this.#uniform = this.#firstWorkgroups(device);
    this.#tensors = device.createBindGroup({
      layout: program.tensors,
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    this.#firstWorkgroup = device.createBindGroup({
      layout: program.firstWorkgroup,
      entries: [{ binding: 0, resource: { buffer: this.#uniform, size: UNIFORM_BYTES } }],
    });
  }

  get slices(): number {
    return this.#plan.count;
  }

  /** Adds the dispatches of slices [lo, hi), all of them unless told, to `pass`. */
  encode(pass: GPUComputePassEncoder, lo = 0, hi = this.slices): void {
    pass.setBindGroup(0, this.#tensors);
    for (const { dispatch, slice, workgroups } of launches(this.#plan, lo, hi, this.#most)) {
      pass.setPipeline(this.program.pipelines[dispatch] as GPUComputePipeline);
      pass.setBindGroup(1, this.#firstWorkgroup, [slice * this.#stride]);
      pass.dispatchWorkgroups(workgroups);
    }
  }

  dispose(): void {
    this.#uniform.destroy();
  }

  #firstWorkgroups(device: GPUDevice): GPUBuffer {
    const { firsts } = this.#plan;
    const step = this.#stride / Uint32Array.BYTES_PER_ELEMENT;
    return filledBuffer(device, firsts.length * this.#stride, GPUBufferUsage.UNIFORM, (words) => {
      for (const [i, first] of firsts.entries()) words[i * step] = first;
    });
  }
}
