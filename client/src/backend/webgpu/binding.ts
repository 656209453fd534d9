/**
 * A program bound to its tensors, as one range of slices over all its dispatches, so that a
 * submission may hold any part of it. All slices are of `unit` workgroups; the last one of a
 * dispatch may be smaller.
 */
import { type Clock, now } from "../../timing/clock.js";
import { filledBuffer } from "./buffers.js";
import type { OpenDevice } from "./device.js";
import { type Program, UNIFORM_BYTES } from "./program.js";

/** Fine enough that a slice of a kernel that takes a minute ends before a watchdog looks. */
const SLICES = 64;

export interface SlicePlan {
  readonly unit: number;
  /** Workgroups of each dispatch. */
  readonly workgroups: readonly number[];
  /** First workgroups of the slices of the longest dispatch, in order. */
  readonly firsts: readonly number[];
  /** Slices of all dispatches together. */
  readonly count: number;
}

/** One `dispatchWorkgroups`: its first workgroup is `firsts[slice]`. */
export interface Launch {
  readonly dispatch: number;
  readonly slice: number;
  readonly workgroups: number;
}

/** Cuts dispatches into slices; `most` workgroups fit into one dimension. */
export function planSlices(workgroups: readonly number[], most: number): SlicePlan {
  const longest = Math.max(...workgroups);
  const unit = Math.min(Math.ceil(longest / SLICES), most);
  const firsts = Array.from({ length: Math.ceil(longest / unit) }, (_, i) => i * unit);
  const count = workgroups.reduce((sum, groups) => sum + Math.ceil(groups / unit), 0);
  return { unit, workgroups, firsts, count };
}

/** Slices [lo, hi) in as few launches as possible, in order. */
export function launches(plan: SlicePlan, lo: number, hi: number, most: number): readonly Launch[] {
  const launched: Launch[] = [];
  const together = Math.floor(most / plan.unit);
  let start = 0;
  for (const [dispatch, all] of plan.workgroups.entries()) {
    const end = start + Math.ceil(all / plan.unit);
    const last = Math.min(hi, end) - start;
    for (let slice = Math.max(lo, start) - start; slice < last; slice += together) {
      const until = Math.min(Math.min(slice + together, last) * plan.unit, all);
      launched.push({ dispatch, slice, workgroups: until - slice * plan.unit });
    }
    start = end;
  }
  return launched;
}

/** A program bound to its tensors. A range is of slices, 0 ≤ lo ≤ hi ≤ `slices`. */
export class BoundProgram implements BoundCall {
  readonly program: Program;
  readonly #plan: SlicePlan;
  readonly #most: number;
  readonly #stride: number;
  /** The launches of all slices, which most runs encode. */
  readonly #whole: readonly Launch[];
  readonly #uniform: GPUBuffer;
  readonly #tensors: GPUBindGroup;
  readonly #firstWorkgroup: GPUBindGroup;

  /** `buffers` are those of ABI 1, in order; they stay the caller's. The program has the uniform. */
  constructor(program: Program, buffers: readonly GPUBuffer[]) {
    const { device } = program.open;
    const { maxComputeWorkgroupsPerDimension, minUniformBufferOffsetAlignment } = device.limits;
    this.program = program;
    this.#most = maxComputeWorkgroupsPerDimension;
    this.#stride = Math.max(minUniformBufferOffsetAlignment, UNIFORM_BYTES);
    const workgroups = program.kernel.dispatches.map((dispatch) => dispatch.workgroups);
    this.#plan = planSlices(workgroups, this.#most);
    this.#whole = launches(this.#plan, 0, this.#plan.count, this.#most);
    this.#uniform = this.#firstWorkgroups(device);
    this.#tensors = device.createBindGroup({
      layout: program.tensors,
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    this.#firstWorkgroup = device.createBindGroup({
      layout: program.firstWorkgroup as GPUBindGroupLayout,
      entries: [{ binding: 0, resource: { buffer: this.#uniform, size: UNIFORM_BYTES } }],
    });
  }

  get slices(): number {
    return this.#plan.count;
  }

  /** Adds the dispatches of slices [lo, hi), all of them unless told, to `pass`. */
  encode(pass: GPUComputePassEncoder, lo = 0, hi = this.slices): void {
    pass.setBindGroup(0, this.#tensors);
    const whole = lo === 0 && hi === this.slices;
    const launched = whole ? this.#whole : launches(this.#plan, lo, hi, this.#most);
    for (const { dispatch, slice, workgroups } of launched) {
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

/** Submits one compute pass. */
export function submitPass(device: GPUDevice, encode: (pass: GPUComputePassEncoder) => void): void {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encode(pass);
  pass.end();
  device.queue.submit([encoder.finish()]);
}

/** Work that can be submitted in parts. */
export interface Sliced {
  readonly slices: number;
  encode(pass: GPUComputePassEncoder, lo?: number, hi?: number): void;
}

/** A program that is bound to its tensors. */
export interface BoundCall extends Sliced {
  readonly program: Program;
  dispose(): void;
}

export interface SliceOptions {
  readonly clock?: Clock;
  readonly aborted?: () => boolean;
  /** Awaited before each submission, so that something else may go first. */
  readonly rest?: (() => Promise<void>) | null;
}

/**
 * A submission that takes longer than `mostMs` is followed by a shorter one: the page draws with this
 * GPU. Below `leastMs`, waiting for the answer takes longer than the work.
 */
const ALONE = { leastMs: 8, mostMs: 32 };
/**
 * Both count from the time of the shortest submission, which hardly does anything but wait for the
 * answer.
 */
const BESIDE_OTHERS = { leastMs: 0.5, mostMs: 1 };

/**
 * Runs all slices once, in submissions that stay short however slow the GPU is, and answers the
 * milliseconds that they took together: an upper bound of one call. Infinite where `aborted` said to
 * stop between two submissions.
 * Throws KernelZooError: run, timeout at `deadlineMs` of the clock.
 */
export async function runInSlices(
  open: OpenDevice,
  work: Sliced,
  deadlineMs: number,
  { clock = now, aborted = () => false, rest = null }: SliceOptions = {},
): Promise<number> {
  const start = clock();
  const { leastMs, mostMs } = rest === null ? ALONE : BESIDE_OTHERS;
  let units = 1;
  let waitsMs = rest === null ? 0 : Number.POSITIVE_INFINITY;
  for (let lo = 0; lo < work.slices; ) {
    const hi = Math.min(lo + units, work.slices);
    if (rest !== null) await rest();
    if (aborted()) return Number.POSITIVE_INFINITY;
    const before = clock();
    submitPass(open.device, (pass) => work.encode(pass, lo, hi));
    await open.idle(deadlineMs - before);
    const elapsed = clock() - before;
    waitsMs = Math.min(waitsMs, elapsed);
    if (elapsed < waitsMs + leastMs) units *= 2;
    else if (elapsed > waitsMs + mostMs) units = Math.max(1, units >> 1);
    lo = hi;
  }
  return clock() - start;
}
