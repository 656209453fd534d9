/** Runs a plan on the GPU: all calls of a run in one pass and one submission. */
import { fetchArtifact } from "../../engine/artifact.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { viewOf } from "../../engine/tensors.js";
import { BoundProgram, runInSlices, type Sliced } from "../../gpu/bound-program.js";
import { padded, stagingBuffer, storageBuffer } from "../../gpu/buffers.js";
import { type OpenDevice, openDevice } from "../../gpu/device.js";
import { compileProgram, type Program } from "../../gpu/program.js";
import { now } from "../../timing/clock.js";
import type { KernelWire } from "../../wire/types.js";
import { addressOf, type ModelAnswer, type PortWire, productOf } from "../answer.js";
import { checked, type EnginePorts, kernelsOf, type RunResult, WrongKernel } from "../engine.js";
import type { Stored } from "../golden.js";
import type { Loaded, LoadOrder, Progress } from "../messages.js";
import { refuseMisfit } from "../placement.js";
import { streamWeights } from "../stream.js";
import { CallTimer } from "./call-timer.js";
import { type BufferOf, type GpuPlacement, placeOnGpu } from "./placement.js";

/** The first run compiles in the driver, and a slow GPU takes as long as it takes. */
const LIMIT_MS = 60_000;
/** Of one pipeline, while a driver compiles those of other calls, too. */
const COMPILE_MS = 30_000;
/** A run that takes longer is submitted in slices, so that the page can draw between them. */
const WHOLE_MS = 100;
/** Runs that may be under way at once: while one is read back, the next ones compute. */
const MOST_RUNS = 3;
/** Calls of a run overlap: what each takes by itself is told where it is asked for. */
const UNTIMED = (): RunResult["times"] => new Float64Array(0);

/** Programs of several calls as one range of slices. */
class Chain implements Sliced {
  readonly slices: number;
  readonly #bound: readonly BoundProgram[];

  constructor(bound: readonly BoundProgram[]) {
    this.#bound = bound;
    this.slices = bound.reduce((sum, each) => sum + each.slices, 0);
  }

  encode(pass: GPUComputePassEncoder, lo = 0, hi = this.slices): void {
    let start = 0;
    for (const each of this.#bound) {
      const [from, to] = [Math.max(lo - start, 0), Math.min(hi - start, each.slices)];
      if (from < to) each.encode(pass, from, to);
      start += each.slices;
    }
  }
}

/** Owns the device, the weights and the buffers of one model. It ends with its worker. */
export class GpuEngine {
  readonly loaded: Loaded;
  /** Resolves when all weights are on the GPU. Rejects with KernelZooError: network, artifact. */
  readonly stored: Promise<void>;
  readonly #order: LoadOrder;
  /** Where each output begins in a staging buffer, and where the last one ends. */
  readonly #offsets: readonly number[];
  readonly #open: OpenDevice;
  readonly #inputs: readonly GPUBuffer[];
  readonly #outputs: readonly GPUBuffer[];
  readonly #bound: readonly BoundProgram[];
  readonly #chain: Chain;
  readonly #free: GPUBuffer[];
  readonly #waiting: ((staging: GPUBuffer) => void)[] = [];
  #submitted: Promise<unknown> = Promise.resolve();
  /** What the last run in slices took. */
  #runMs = Number.POSITIVE_INFINITY;

  private constructor(
    order: LoadOrder,
    open: OpenDevice,
    buffers: Buffers,
    bound: readonly BoundProgram[],
    staging: readonly GPUBuffer[],
    stored: Promise<void>,
  ) {
    this.#order = order;
    this.#offsets = outputOffsets(order.answer);
    this.stored = stored;
    this.#open = open;
    this.#inputs = buffers.placement.inputs.map(buffers.of);
    this.#outputs = buffers.placement.outputs.map(buffers.of);
    this.#bound = bound;
    this.#chain = new Chain(bound);
    this.#free = [...staging];
    this.loaded = { memoryBytes: buffers.bytes, threads: 1, singleThreadReason: null };
  }

  /**
   * Loads kernels; weights are on their way then, and runs wait for them. Throws KernelZooError:
   * network, manifest, artifact, validate, compile, memory, profile, run; WrongKernel.
   */
  static async load(
    order: LoadOrder,
    { progress }: Pick<EnginePorts, "progress">,
  ): Promise<GpuEngine> {
    const { answer, origin } = order;
    const { plan } = answer;
    const kernels = plan.kernels.map(kernelsOf(order));
    for (const call of plan.calls) refuseMisfit(plan, call, kernels[call.kernel] as KernelWire);
    const open = await openDevice();
    refuseLarge(answer, open);

    // 1. A buffer for everything.
    const placement = placeOnGpu(plan);
    const buffers = await open.scoped(() => new Buffers(answer, placement, open.device), LIMIT_MS);

    // 2. Pipelines and weights at the same time: drivers compile on threads of their own.
    const programs = compileAll(order, kernels, open, progress);
    const total = plan.memory.weights;
    const stored = streamWeights(
      addressOf(answer.weights.url, origin),
      plan.chunks,
      (offset, bytes) => buffers.take(offset, bytes),
      { chunk: (loaded) => progress({ phase: "weights", loaded, total }), piece: () => undefined },
    );
    stored.catch(() => undefined); // Whoever waits for it hears of it.
    const compiled = await programs;

    // 3. What never changes from run to run.
    return open.scoped(() => {
      const bound = plan.calls.map(({ kernel }, i) => {
        const { scratch_bytes } = kernels[kernel] as KernelWire;
        const operands = (placement.calls[i] as readonly BufferOf[]).map(buffers.of);
        const all = scratch_bytes > 0 ? [...operands, buffers.scratch(scratch_bytes)] : operands;
        return new BoundProgram(compiled[kernel] as Program, all);
      });
      const bytes = outputOffsets(answer).at(-1) as number;
      const staging = Array.from({ length: MOST_RUNS }, () => stagingBuffer(open.device, bytes));
      return new GpuEngine(order, open, buffers, bound, staging, stored);
    }, LIMIT_MS);
  }

  /**
   * Outputs for `feeds`, both in the plan's order; null where `aborted` said to stop. A run may be
   * asked for before the last one has ended: three are under way at once. Throws KernelZooError: run
   * where the device was lost, timeout.
   */
  async run(
    feeds: readonly Stored[],
    aborted: () => boolean,
    timed = false,
  ): Promise<RunResult | null> {
    const staging = await this.#taken();
    try {
      const submitted = this.#submitted.then(() => this.#submit(feeds, staging, aborted));
      this.#submitted = submitted.catch(() => undefined);
      if (!(await submitted)) return null;
      const outputs = await this.#read(staging);
      return { outputs, times: timed ? await this.#times() : UNTIMED() };
    } finally {
      this.#give(staging);
    }
  }

  /** What each call takes by itself. Throws as `run`. */
  async #times(): Promise<RunResult["times"]> {
    const timer = await CallTimer.make(this.#open, this.#bound[0] as BoundProgram, LIMIT_MS);
    try {
      return await timer.times(this.#bound, LIMIT_MS);
    } finally {
      timer.dispose();
    }
  }

  #taken(): Promise<GPUBuffer> {
    const staging = this.#free.pop();
    if (staging !== undefined) return Promise.resolve(staging);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #give(staging: GPUBuffer): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(staging);
    else next(staging);
  }

  /** False where the run was aborted before its end. */
  async #submit(
    feeds: readonly Stored[],
    staging: GPUBuffer,
    aborted: () => boolean,
  ): Promise<boolean> {
    const { device } = this.#open;
    await this.stored;
    if (aborted()) return false;
    for (const [i, feed] of feeds.entries()) {
      device.queue.writeBuffer(this.#inputs[i] as GPUBuffer, 0, feed);
    }
    const short = this.#runMs <= WHOLE_MS;
    if (!short) {
      this.#runMs = await runInSlices(this.#open, this.#chain, now() + LIMIT_MS, { aborted });
      if (this.#runMs === Number.POSITIVE_INFINITY) return false;
    }
    const encoder = device.createCommandEncoder();
    if (short) {
      const pass = encoder.beginComputePass();
      this.#chain.encode(pass);
      pass.end();
    }
    for (const [i, output] of this.#outputs.entries()) {
      const [from, to] = [this.#offsets[i] as number, this.#offsets[i + 1] as number];
      encoder.copyBufferToBuffer(output, 0, staging, from, to - from);
    }
    device.queue.submit([encoder.finish()]);
    return true;
  }

  async #read(staging: GPUBuffer): Promise<readonly Stored[]> {
    await this.#open.settled(staging.mapAsync(GPUMapMode.READ), LIMIT_MS);
    const copied = staging.getMappedRange().slice(0);
    staging.unmap();
    return this.#order.answer.plan.outputs.map(({ tensor, shape }, i) => {
      const { dtype } = this.#order.answer.plan.tensors[tensor] as { dtype: "f32" | "i32" };
      return viewOf(copied, dtype, this.#offsets[i] as number, productOf(shape)).slice() as Stored;
    });
  }

  /**
   * Compares the golden outputs; false where `aborted` said to stop. Throws KernelZooError: compare
   * where an output is wrong, network, artifact, run, timeout.
   */
  check(ports: Pick<EnginePorts, "progress">, aborted: () => boolean): Promise<boolean> {
    return checked(this.#order, (feeds) => this.run(feeds, aborted), ports);
  }
}

/** Where each output begins in the staging buffer, and where the last one ends. */
function outputOffsets({ plan }: ModelAnswer): readonly number[] {
  const bytes = ({ shape }: PortWire): number => padded(4 * productOf(shape));
  const ends = [0];
  for (const port of plan.outputs) ends.push((ends.at(-1) as number) + bytes(port));
  return ends;
}

/** Throws KernelZooError (memory), before anything is fetched. */
function refuseLarge({ plan, name }: ModelAnswer, { device }: OpenDevice): void {
  const most = Math.min(device.limits.maxBufferSize, device.limits.maxStorageBufferBindingSize);
  const sizes = plan.tensors.map(({ shape }) => 4 * productOf(shape));
  const largest = Math.max(0, ...sizes);
  if (largest <= most) return;
  const mib = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  throw new KernelZooError(
    "memory",
    `${name} has a tensor of ${mib(largest)}; this GPU binds ${mib(most)} at the most.`,
  );
}

/** All buffers of a model. Weights are written while they arrive. */
class Buffers {
  readonly placement: GpuPlacement;
  bytes = 0;
  readonly #answer: ModelAnswer;
  readonly #device: GPUDevice;
  readonly #shared: readonly GPUBuffer[];
  readonly #weights: readonly GPUBuffer[];
  #scratch: GPUBuffer | null = null;
  #next = 0;

  constructor(answer: ModelAnswer, placement: GpuPlacement, device: GPUDevice) {
    this.placement = placement;
    this.#answer = answer;
    this.#device = device;
    this.#shared = placement.sizes.map((bytes) => this.#made(bytes));
    this.#weights = answer.plan.weights.map(({ bytes }) => this.#made(bytes));
  }

  readonly of = ({ kind, index }: BufferOf): GPUBuffer =>
    (kind === "weight" ? this.#weights : this.#shared)[index] as GPUBuffer;

  /** Calls follow each other, so that they share one scratch buffer. */
  scratch(bytes: number): GPUBuffer {
    if ((this.#scratch?.size ?? 0) < bytes) this.#scratch = this.#made(bytes);
    return this.#scratch as GPUBuffer;
  }

  /** Takes the weights file in order. */
  take(offset: number, bytes: Uint8Array<ArrayBuffer>): void {
    const { weights } = this.#answer.plan;
    const end = offset + bytes.length;
    for (let weight = weights[this.#next]; weight !== undefined; weight = weights[this.#next]) {
      const [from, to] = [
        Math.max(offset, weight.offset),
        Math.min(end, weight.offset + weight.bytes),
      ];
      if (from < to) {
        const buffer = this.#weights[this.#next] as GPUBuffer;
        const part = bytes.subarray(from - offset, to - offset);
        this.#device.queue.writeBuffer(buffer, from - weight.offset, part);
      }
      if (weight.offset + weight.bytes > end) return;
      this.#next += 1;
    }
  }

  #made(bytes: number): GPUBuffer {
    this.bytes += padded(bytes);
    return storageBuffer(this.#device, bytes);
  }
}

/** The programs of the kernels in their order; equal kernels are compiled once. */
async function compileAll(
  { answer, origin }: LoadOrder,
  kernels: readonly KernelWire[],
  open: OpenDevice,
  progress: (progress: Progress) => void,
): Promise<readonly Program[]> {
  const total = kernels.reduce((sum, { size_bytes }) => sum + size_bytes, 0);
  let loaded = 0;
  const made = new Map<string, Promise<Program>>();
  const program = async (kernel: KernelWire, workload: string): Promise<Program> => {
    const bytes = await fetchArtifact(new URL(origin), kernel);
    try {
      const compiled = await compileProgram(
        open,
        kernel,
        new TextDecoder().decode(bytes),
        COMPILE_MS,
      );
      loaded += kernel.size_bytes;
      progress({ phase: "kernels", loaded, total });
      return compiled;
    } catch (thrown) {
      throw blamed(workload, kernel, thrown);
    }
  };
  return Promise.all(
    kernels.map((kernel, i) => {
      const { sha256 } = kernel;
      const known = made.get(sha256) ?? program(kernel, answer.plan.kernels[i] as string);
      made.set(sha256, known);
      return known;
    }),
  );
}

/** A kernel that a driver refuses is to blame; a lost device is nobody's fault. */
function blamed(workload: string, { sha256 }: KernelWire, thrown: unknown): unknown {
  const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
  if (stage !== "validate" && stage !== "compile") return thrown;
  return new WrongKernel({ workload, artifact: sha256, stage, message: sentence(thrown) });
}
