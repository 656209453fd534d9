/**
 * Measures webgpu candidates: each is verified, its samples are sized, and it is timed inside a
 * turn. A device that is lost costs one candidate; the next has another device.
 */
import { type BoundProgram, runInSlices, type Sliced } from "../../backend/webgpu/binding.js";
import { type GpuActivity, noActivity, raiseClock } from "../../backend/webgpu/clock.js";
import { CompileDeadline } from "../../backend/webgpu/deadlines.js";
import type { DeviceOwner, OpenDevice } from "../../backend/webgpu/device.js";
import { compilesOneByOne } from "../../backend/webgpu/pipeline-queue.js";
import type { Program } from "../../backend/webgpu/program.js";
import { gpuSampleNs, PASS_MS, type SampleShape, shapeOf } from "../../backend/webgpu/sample.js";
import { type GpuTimer, gpuTimer, restingTimer } from "../../backend/webgpu/timer.js";
import type { OutputView } from "../../engine/tensors.js";
import type { Sampler } from "../../timing/samples.js";
import type { KernelWire, MeasurementWire } from "../../wire/types.js";
import {
  type Instrument,
  type LeaseInstrument,
  type ReferenceFailed,
  type TimedWork,
  tellReference,
} from "../instrument.js";
import type { LoadProgram } from "../kernel-cache.js";
import type { Subject } from "../measurement.js";
import {
  compare,
  deadlineMs,
  didNotCompile,
  failureOf,
  measurementOf,
  type Pacing,
  REFERENCE_BUDGET_MS,
  rankAgain,
  sampledEntries,
  screen,
  UNDISTURBED,
} from "../measurement.js";
import { preparationOf } from "../preparation-cost.js";
import { GpuBench } from "./bench.js";

/** The reference kernel, its output on the lease's inputs, and the timer that it set up. */
export interface GpuReference {
  readonly bound: BoundProgram;
  readonly output: OutputView;
  readonly states: readonly OutputView[];
  readonly callMs: number;
  readonly timer: GpuTimer;
  readonly activity: GpuActivity;
  readonly pacing: Pacing;
  /** The size of its samples; null until it is known. */
  shape: SampleShape | null;
}

/**
 * Runs once, and again where that took long: the driver may have compiled during the first run, or
 * other kernels may have held it up, so that its time would size samples wrongly. What it leaves is
 * that of one run: states go on from what a run has left in them.
 */
async function ranMs(
  bench: GpuBench,
  work: Sliced,
  untilMs: number,
  pacing: Pacing,
): Promise<{ readonly firstMs: number; readonly callMs: number }> {
  const run = (): Promise<number> => {
    bench.clearOutput();
    return runInSlices(bench.open, work, untilMs, pacing);
  };
  const firstMs = await run();
  if (firstMs <= PASS_MS) return { firstMs, callMs: firstMs };
  return { firstMs, callMs: Math.min(firstMs, await run()) };
}

interface Written {
  readonly output: OutputView;
  readonly states: readonly OutputView[];
}

/**
 * Reads the output and the states that a kernel has written, with a rest before each of the two.
 */
async function readWritten(
  bench: GpuBench,
  untilMs: number,
  { rest, clock }: Pacing,
): Promise<Written> {
  await rest?.();
  const output = await bench.output(untilMs - clock());
  await rest?.();
  return { output, states: await bench.states(untilMs - clock()) };
}

/** Runs the reference and keeps its output. Throws KernelZooError when it cannot. */
export async function gpuReference(
  bench: GpuBench,
  program: Program,
  pacing = UNDISTURBED,
): Promise<GpuReference> {
  const { rest, clock } = pacing;
  const untilMs = clock() + REFERENCE_BUDGET_MS;
  const bound = await bench.bind(program);
  const { callMs } = await ranMs(bench, bound, untilMs, pacing);
  const { output, states } = await readWritten(bench, untilMs, pacing);
  const oneSlice = (pass: GPUComputePassEncoder): void => bound.encode(pass, 0, 1);
  const own = await gpuTimer(bench.open, oneSlice, untilMs - clock());
  const timer = rest === null ? own : restingTimer(own, rest);
  return { bound, output, states, callMs, timer, activity: noActivity(), pacing, shape: null };
}

/** A kernel with the size of its samples. */
interface Sized {
  readonly shape: SampleShape;
  readonly sampler: Sampler;
}

/**
 * Each kernel has its own number of calls, as that of a fast one would hold the GPU for long with a
 * slow one.
 */
async function sized(
  { timer, pacing: { clock } }: GpuReference,
  work: BoundProgram,
  callMs: number,
  untilMs: number,
  known: SampleShape | null = null,
): Promise<Sized> {
  const shape = known ?? (await shapeOf(timer, work, callMs, untilMs, clock));
  return { shape, sampler: () => gpuSampleNs(timer, work, shape, untilMs, clock) };
}

/** The reference's samples, which are sized once. */
async function sizedReference(reference: GpuReference, untilMs: number): Promise<Sized> {
  const { bound, callMs, shape } = reference;
  const own = await sized(reference, bound, callMs, untilMs, shape);
  reference.shape = own.shape;
  return own;
}

/**
 * Comparing outputs has left the GPU idle. Beside inferences its clock is what they leave it at: work
 * that raises it would hold them up.
 */
async function raised(reference: GpuReference, untilMs: number): Promise<void> {
  const { timer, bound, activity, pacing } = reference;
  if (pacing.rest === null) await raiseClock(timer, bound, activity, untilMs, pacing.clock);
}

/** Measures a bound candidate. Throws KernelZooError with the stage. */
async function measured(
  bench: GpuBench,
  subject: Subject,
  reference: GpuReference,
  bound: BoundProgram,
): Promise<MeasurementWire> {
  const { activity, pacing } = reference;
  const { rest, clock } = pacing;
  const untilMs = deadlineMs(reference.callMs, clock);
  await rest?.();
  const { callMs, firstMs } = await ranMs(bench, bound, untilMs, pacing);
  const { output, states } = await readWritten(bench, untilMs, pacing);
  compare(output, reference.output, subject.tolerance);
  for (const [i, state] of states.entries()) {
    compare(state, reference.states[i] as OutputView, subject.tolerance);
  }
  await raised(reference, untilMs);
  const own = await sized(reference, bound, callMs, untilMs);
  const against = await sizedReference(reference, untilMs);
  const samples = await screen(own.sampler, against.sampler, untilMs, clock);
  activity.lastMs = clock();
  const entries = sampledEntries(subject, output);
  // A pipeline has one tier, and no kernel of WebGPU wants its weights packed.
  const preparation = preparationOf(bound.program.compileMs, 0, { firstMs, fastMs: 0 });
  return measurementOf(bound.program.kernel, entries, samples, own.shape.calls, preparation);
}

export async function measureGpu(
  bench: GpuBench,
  subject: Subject,
  reference: GpuReference,
  program: Program,
): Promise<MeasurementWire> {
  const bound = await bench.bind(program);
  try {
    return await measured(bench, subject, reference, bound);
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
  const { pacing } = reference;
  const untilMs = pacing.clock() + REFERENCE_BUDGET_MS;
  const others = await Promise.all(programs.map((program) => bench.bind(program)));
  try {
    await raised(reference, untilMs);
    const own = await sizedReference(reference, untilMs);
    const samplers: Sampler[] = [];
    for (const other of others) {
      const { callMs: otherMs } = await ranMs(bench, other, untilMs, pacing);
      samplers.push((await sized(reference, other, otherMs, untilMs)).sampler);
    }
    return await rankAgain(own.sampler, samplers);
  } finally {
    for (const other of others) other.dispose();
  }
}

/** Work that was given up may still run; after this long the device is given up with it. */
const DRAIN_MS = 10_000;

/** The tensors and the reference of one lease on one device. */
interface LeaseOnDevice {
  readonly open: OpenDevice;
  readonly bench: GpuBench;
  readonly reference: GpuReference;
}

export interface GpuInstrumentPorts {
  /** Called when pipelines are compiled one by one from now on, as a driver did not end one. */
  readonly careful?: () => void;
  readonly referenceFailed?: ReferenceFailed;
}

class GpuLease implements LeaseInstrument {
  readonly #owner: DeviceOwner;
  readonly #load: LoadProgram;
  readonly #subject: Subject;
  readonly #kernels: readonly KernelWire[];
  readonly #ports: GpuInstrumentPorts;
  readonly #pacing: Pacing;
  #current: LeaseOnDevice | null = null;
  /** All pipelines of the device that the lease was opened on. */
  #compiled: Promise<unknown> = Promise.resolve();
  /**
   * The error of a reference that does not compile here, so that nothing of this lease can be
   * measured; else null.
   */
  #refused: unknown = null;

  constructor(
    owner: DeviceOwner,
    load: LoadProgram,
    subject: Subject,
    kernels: readonly KernelWire[],
    ports: GpuInstrumentPorts,
    pacing: Pacing,
  ) {
    this.#owner = owner;
    this.#load = load;
    this.#subject = subject;
    this.#kernels = kernels;
    this.#ports = ports;
    this.#pacing = pacing;
  }

  /** Begins all fetches at once; whoever needs a kernel sees its failure. */
  begin(open: OpenDevice): void {
    const others = this.#kernels.filter((kernel) => kernel !== this.#subject.reference);
    const loading = others.map((kernel) => this.#load(open, kernel));
    this.#compiled = Promise.allSettled([this.#reference(open), ...loading]);
  }

  async candidate(kernel: KernelWire): Promise<MeasurementWire | TimedWork<MeasurementWire>> {
    const open = await this.#owner.device();
    try {
      await this.#load(open, kernel);
    } catch (thrown) {
      if (compilesOneByOne()) this.#ports.careful?.();
      // Several compile at once, and any of them may have lost the device: each is tried alone.
      if (open.loss === null || thrown instanceof CompileDeadline) return failureOf(kernel, thrown);
    }
    // Candidates are timed one after another, so that the clock stays up, and not while the driver
    // compiles others.
    await this.#compiled;
    return () => this.#attempt(kernel);
  }

  async again(kernels: readonly KernelWire[]): Promise<() => Promise<readonly number[]>> {
    const open = await this.#owner.device();
    await Promise.all(kernels.map((kernel) => this.#load(open, kernel)));
    return async () => {
      const { open: ready, bench, reference } = await this.#setUp();
      const programs = await Promise.all(kernels.map((kernel) => this.#load(ready, kernel)));
      return measureGpuAgain(bench, reference, programs);
    };
  }

  dispose(): void {
    this.#current?.reference.bound.dispose();
    this.#current?.reference.timer.dispose();
    this.#current?.bench.dispose();
    this.#current = null;
  }

  async #attempt(kernel: KernelWire): Promise<MeasurementWire> {
    const { open, bench, reference } = await this.#setUp();
    try {
      return await measureGpu(bench, this.#subject, reference, await this.#load(open, kernel));
    } catch (thrown) {
      const failure = failureOf(kernel, thrown);
      // No other kernel is timed while the GPU still runs what this one has left.
      await open.idle(DRAIN_MS).catch(() => {
        if (open.loss === null) open.dispose();
      });
      return failure;
    }
  }

  /**
   * Sets the lease up on the current device, or on the next where a kernel loses that meanwhile.
   */
  async #setUp(): Promise<LeaseOnDevice> {
    const open = await this.#owner.device();
    try {
      return await this.#setUpOn(open);
    } catch (thrown) {
      if (open.loss === null || thrown instanceof CompileDeadline) throw thrown;
      return this.#setUpOn(await this.#owner.device());
    }
  }

  /** Reports a reference that does not compile, once, and does not compile it again. */
  async #reference(open: OpenDevice): Promise<Program> {
    if (this.#refused !== null) throw this.#refused;
    try {
      return await this.#load(open, this.#subject.reference);
    } catch (thrown) {
      if (didNotCompile(thrown)) this.#refused = thrown;
      tellReference(this.#subject, thrown, this.#ports.referenceFailed ?? (() => undefined));
      throw thrown;
    }
  }

  async #setUpOn(open: OpenDevice): Promise<LeaseOnDevice> {
    if (this.#current?.open === open) return this.#current;
    this.dispose();
    const program = await this.#reference(open);
    await this.#pacing.rest?.();
    const bench = await GpuBench.make(open, this.#subject, this.#kernels);
    const reference = await gpuReference(bench, program, this.#pacing);
    this.#current = { open, bench, reference };
    return this.#current;
  }
}

/** Measures webgpu candidates on the device of `owner`. */
export function gpuInstrument(
  owner: DeviceOwner,
  load: LoadProgram,
  ports: GpuInstrumentPorts = {},
  pacing = UNDISTURBED,
): Instrument {
  return {
    async open(subject, kernels) {
      const open = await owner.device();
      const all = [subject.reference, ...kernels];
      const opened = new GpuLease(owner, load, subject, all, ports, pacing);
      opened.begin(open);
      return opened;
    },
  };
}
