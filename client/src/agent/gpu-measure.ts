/** Verify, size the samples, time: what becomes of one webgpu candidate inside a turn. */
import type { BoundProgram } from "../gpu/bound.js";
import type { OpenDevice } from "../gpu/device.js";
import type { Program } from "../gpu/program.js";
import { gpuSampleNs, PASS_MS, shapeOf } from "../gpu/sample.js";
import { runInSlices, type Sliced } from "../gpu/submit.js";
import { type GpuTimer, gpuTimer } from "../gpu/timer.js";
import { TIMER_TOOLS } from "../gpu/timer-tools.js";
import { now } from "../timing/clock.js";
import type { Sampler } from "../timing/samples.js";
import type { Lease, MeasurementWire } from "../wire/types.js";
import type { GpuBench } from "./gpu-bench.js";
import {
  compare,
  deadlineMs,
  measurementOf,
  REFERENCE_BUDGET_MS,
  rankAgain,
  sampledEntries,
  screen,
} from "./screen.js";

/** The reference kernel, its output on the lease's inputs, and the timer that it set up. */
export interface GpuReference {
  readonly bound: BoundProgram;
  readonly output: Float32Array;
  readonly callMs: number;
  readonly timer: GpuTimer;
}

/**
 * Runs once, and again where that took long: the first run may have compiled in the driver, or
 * waited for kernels that others compile, which says nothing of how a sample is to be cut.
 */
async function ranMs(open: OpenDevice, work: Sliced, untilMs: number): Promise<number> {
  const firstMs = await runInSlices(open, work, untilMs);
  if (firstMs <= PASS_MS) return firstMs;
  return Math.min(firstMs, await runInSlices(open, work, untilMs));
}

/** Runs the reference and keeps its output. Throws KernelZooError when it cannot. */
export async function gpuReference(bench: GpuBench, program: Program): Promise<GpuReference> {
  const untilMs = now() + REFERENCE_BUDGET_MS;
  const bound = await bench.bind(program);
  const callMs = await ranMs(bench.open, bound, untilMs);
  const output = await bench.output(untilMs - now());
  const oneSlice = (pass: GPUComputePassEncoder): void => bound.encode(pass, 0, 1);
  const timer = await gpuTimer(bench.open, oneSlice, untilMs - now(), TIMER_TOOLS);
  return { bound, output, callMs, timer };
}

/** A kernel with the number of its calls in one sample. */
interface Sized {
  readonly calls: number;
  readonly sampler: Sampler;
}

/** Each has a size of its own: a reference that is far slower would hold the GPU for long. */
async function sized(
  timer: GpuTimer,
  work: BoundProgram,
  callMs: number,
  untilMs: number,
): Promise<Sized> {
  const shape = await shapeOf(timer, work, callMs, untilMs);
  return { calls: shape.calls, sampler: () => gpuSampleNs(timer, work, shape, untilMs) };
}

/** Measures a bound candidate. Throws KernelZooError with the stage. */
async function measured(
  bench: GpuBench,
  lease: Lease,
  { timer, ...reference }: GpuReference,
  bound: BoundProgram,
): Promise<MeasurementWire> {
  const untilMs = deadlineMs(reference.callMs);
  bench.clearOutput();
  const callMs = await ranMs(bench.open, bound, untilMs);
  const output = await bench.output(untilMs - now());
  compare(output, reference.output, lease.tolerance);
  const own = await sized(timer, bound, callMs, untilMs);
  const against = await sized(timer, reference.bound, reference.callMs, untilMs);
  const samples = await screen(own.sampler, against.sampler, untilMs);
  const entries = sampledEntries(lease, output);
  return measurementOf(bound.program.kernel, entries, samples, own.calls);
}

export async function measureGpu(
  bench: GpuBench,
  lease: Lease,
  reference: GpuReference,
  program: Program,
): Promise<MeasurementWire> {
  const bound = await bench.bind(program);
  try {
    return await measured(bench, lease, reference, bound);
  } finally {
    bound.dispose();
  }
}

/** Relative times of `programs` from rounds in which all of them and the reference take part. */
export async function measureGpuAgain(
  bench: GpuBench,
  reference: GpuReference,
  programs: readonly Program[],
): Promise<readonly number[]> {
  const { timer, bound, callMs } = reference;
  const untilMs = now() + REFERENCE_BUDGET_MS;
  const others = await Promise.all(programs.map((program) => bench.bind(program)));
  try {
    const own = await sized(timer, bound, callMs, untilMs);
    const samplers: Sampler[] = [];
    for (const other of others) {
      const otherMs = await ranMs(bench.open, other, untilMs);
      samplers.push((await sized(timer, other, otherMs, untilMs)).sampler);
    }
    return await rankAgain(own.sampler, samplers);
  } finally {
    for (const other of others) other.dispose();
  }
}
