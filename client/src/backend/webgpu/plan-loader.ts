/** Kernels and weights of a plan on a GPU, with all that never changes from run to run. */
import { fetchText } from "../../engine/artifact.js";
import type { Bytes } from "../../engine/bytes.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { type BucketCall, bucketCalls } from "../../executor/bucket-calls.js";
import { refuseMisfit } from "../../executor/call-tensors.js";
import { breathing } from "../../executor/event-loop.js";
import type { ExecutorPorts } from "../../executor/executor.js";
import type { LoadOrder, Progress } from "../../executor/messages.js";
import { WrongKernel } from "../../executor/output-check.js";
import {
  forget,
  type KeptModel,
  KeptReader,
  keptModel,
  unreadable,
} from "../../weights/cache-reader.js";
import { type KeptWeight, placesOnGpu } from "../../weights/cached-model.js";
import { checksum } from "../../weights/checksum.js";
import { bytesOfFile, plainFile } from "../../weights/loader.js";
import { streamWeights } from "../../weights/stream.js";
import { unpacking } from "../../weights/unpacker.js";
import { addressOf, kernelsOf, type ModelAnswer } from "../../wire/model-answer.js";
import type { KernelWire } from "../../wire/types.js";
import { type BoundCall, BoundProgram, type Sliced } from "./binding.js";
import { refuseUnbindable } from "./bounds.js";
import { padded, storageBuffer, storedBytes, writeEntries } from "./buffers.js";
import { type OpenDevice, openDevice } from "./device.js";
import { type BufferOf, type GpuPlacement, placeOnGpu } from "./memory.js";
import { compileProgram, type Program } from "./program.js";
import { boundTo, compileWhole, runsWhole, WholeProgram } from "./whole-program.js";

/** The first run compiles in the driver, and a slow GPU takes as long as it takes. */
export const LIMIT_MS = 60_000;
/** A limit for one pipeline, while a driver compiles those of other calls, too. */
const COMPILE_MS = 30_000;

/** `bound` are the calls in their order; `stored` resolves when all weights are on the GPU. */
export interface LoadedPlan<Call extends Sliced = BoundProgram> {
  readonly open: OpenDevice;
  readonly buffers: PlanBuffers;
  readonly bound: readonly Call[];
  readonly stored: Promise<void>;
}

/** Compiles and binds calls: so that they can run in slices, or whole. */
interface CallBinding<Call extends Sliced> {
  readonly compile: typeof compileProgram;
  readonly bound: (program: Program, operands: readonly GPUBuffer[]) => Call;
}

type Reports = Pick<ExecutorPorts, "progress">;

const SLICED: CallBinding<BoundProgram> = {
  compile: compileProgram,
  bound: (program, operands) => new BoundProgram(program, operands),
};
const WHOLE: CallBinding<WholeProgram> = {
  compile: compileWhole,
  bound: (program, operands) => new WholeProgram(program, operands),
};

/**
 * Loads kernels; weights are on their way then. Throws KernelZooError: network, manifest, artifact,
 * validate, compile, memory, profile, run; WrongKernel.
 */
export const loadOnGpu = (order: LoadOrder, ports: Reports): Promise<LoadedPlan> =>
  loaded(order, ports, () => SLICED);

/** Loads a plan of which nothing is ever submitted in parts. Throws as `loadOnGpu`. */
export const loadWhole = (order: LoadOrder, ports: Reports): Promise<LoadedPlan<BoundCall>> =>
  loaded<BoundCall>(order, ports, (open, kernels) =>
    kernels.every((kernel) => runsWhole(open, kernel)) ? WHOLE : SLICED,
  );

async function loaded<Call extends Sliced>(
  order: LoadOrder,
  { progress }: Reports,
  bindingOf: (open: OpenDevice, kernels: readonly KernelWire[]) => CallBinding<Call>,
): Promise<LoadedPlan<Call>> {
  const { answer } = order;
  const { plan } = answer;
  const all = plan.kernels.map(kernelsOf(order));
  for (const [i, call] of [...plan.calls, ...bucketCalls(plan)].entries()) {
    refuseMisfit(plan, call, all[call.kernel] as KernelWire, i >= plan.calls.length);
  }
  const kernels = calledKernels(order, plan.calls);
  // Browsers take 80 to 100 ms to open a device.
  const texts = textsOf(order, kernels);
  const open = await openDevice();
  refuseUnbindable(answer, all, open.device.limits);

  // 1. A buffer for everything.
  const placement = placeOnGpu(plan);
  const buffers = await open.scoped(
    () => new PlanBuffers(answer, placement, open.device),
    LIMIT_MS,
  );

  // 2. Pipelines and weights at the same time: drivers compile on threads of their own.
  const binding = bindingOf(open, [...kernels.values()]);
  const programs = compileAll(order, kernels, open, progress, binding.compile, texts);
  const stored = bringWeights(order, buffers, progress);
  stored.catch(() => undefined); // Those who await it see the rejection.
  const compiled = await programs;

  // 3. What never changes from run to run.
  const bound = await open.scoped(
    () =>
      plan.calls.map(({ kernel }, i) => {
        const program = compiled.get(kernel) as Program;
        return binding.bound(program, buffers.operands(i, program));
      }),
    LIMIT_MS,
  );
  return { open, buffers, bound, stored };
}

/**
 * Brings weights from the device, where it keeps all as they lie here; else from the network.
 * Rejects with KernelZooError: network, artifact, storage for a graph that is opened by its key and
 * not whole.
 */
async function bringWeights(
  { answer, origin, graph, replaced }: LoadOrder,
  buffers: PlanBuffers,
  progress: Reports["progress"],
): Promise<void> {
  const { plan } = answer;
  const total = bytesOfFile(plan);
  const arrived = (loaded: number): void => progress({ phase: "weights", loaded, total });
  const kept = graph && keptModel(graph, placesOnGpu(plan));
  if (kept !== null && !kept.weights.includes(null)) {
    if (await readKept(kept, buffers)) return arrived(total);
    await forget(kept);
  }
  // A kernel that replaces a wrong one comes from the network, and so do its weights.
  if (graph?.texts && replaced.length === 0) throw unreadable(answer.name);
  const reading = plan.needs.includes("stored") ? unpacking : plainFile;
  const { take } = reading(plan, (offset, bytes) => buffers.take(offset, bytes));
  await streamWeights(addressOf(answer.weights.url, origin), plan.chunks, take, { chunk: arrived });
}

/** Reads kept weights; false where there is no such file, or a weight is not what was written. */
async function readKept(kept: KeptModel, buffers: PlanBuffers): Promise<boolean> {
  const reader = await KeptReader.open(kept);
  if (reader === null) return false;
  // Files are read without a wait, and a driver that has made a pipeline wants the next one.
  const breathe = breathing();
  try {
    for (const [index, weight] of kept.weights.entries()) {
      const target = { set: (piece: Bytes, at: number) => buffers.put(index, at, piece) };
      if (!(await reader.read(weight as KeptWeight, target, checksum, breathe))) return false;
    }
    return true;
  } finally {
    reader.close();
  }
}

/**
 * Compiles and binds calls of a loaded plan, which are numbered from `first` on, without the uniform
 * that lets a submission hold a part of a kernel; null where a kernel needs it. Throws
 * KernelZooError: network, artifact, validate, compile, run; WrongKernel.
 */
export async function wholeCalls(
  order: LoadOrder,
  open: OpenDevice,
  buffers: PlanBuffers,
  calls: readonly Called[],
  first: number,
): Promise<readonly WholeProgram[] | null> {
  const kernels = calledKernels(order, calls);
  if (![...kernels.values()].every((kernel) => runsWhole(open, kernel))) return null;
  const programs = await compileAll(order, kernels, open, () => undefined, compileWhole);
  const bound = (kernel: number, call: number): WholeProgram => {
    const program = programs.get(kernel) as Program;
    return new WholeProgram(program, buffers.operands(call, program));
  };
  return open.scoped(() => calls.map(({ kernel }, i) => bound(kernel, first + i)), LIMIT_MS);
}

type Called = Pick<BucketCall, "kernel">;

/** The kernels of calls, by their numbers in the plan. */
function calledKernels(
  order: LoadOrder,
  calls: readonly Called[],
): ReadonlyMap<number, KernelWire> {
  const { kernels } = order.answer.plan;
  const kernelOf = kernelsOf(order);
  return new Map(calls.map(({ kernel }) => [kernel, kernelOf(kernels[kernel] as string)]));
}

/** Programs of several calls as one range of slices. */
export class Chain implements Sliced {
  readonly slices: number;
  readonly #bound: readonly Sliced[];

  constructor(bound: readonly Sliced[]) {
    this.#bound = bound;
    this.slices = bound.reduce((sum, call) => sum + call.slices, 0);
  }

  encode(pass: GPUComputePassEncoder, lo = 0, hi = this.slices): void {
    let start = 0;
    for (const call of this.#bound) {
      const [from, to] = [Math.max(lo - start, 0), Math.min(hi - start, call.slices)];
      if (from < to) call.encode(pass, from, to);
      start += call.slices;
    }
  }
}

/** All buffers of a model. States are zeros at first. Weights are written while they arrive. */
export class PlanBuffers {
  readonly placement: GpuPlacement;
  bytes = 0;
  readonly #answer: ModelAnswer;
  readonly #device: GPUDevice;
  readonly #shared: readonly GPUBuffer[];
  readonly #weights: readonly GPUBuffer[];
  readonly #states: readonly GPUBuffer[];
  #scratch: GPUBuffer | null = null;
  #next = 0;

  /** Makes buffers of its own for weights, too, unless it is given `weights` to share. */
  constructor(
    answer: ModelAnswer,
    placement: GpuPlacement,
    device: GPUDevice,
    weights?: readonly GPUBuffer[],
  ) {
    this.placement = placement;
    this.#answer = answer;
    this.#device = device;
    this.#shared = placement.sizes.map((bytes) => this.#made(bytes));
    this.#weights = weights ?? answer.plan.weights.map(({ bytes }) => this.#made(bytes));
    this.#states = (answer.plan.states ?? []).map((state) => this.#made(storedBytes(state)));
  }

  readonly of = ({ kind, index }: BufferOf): GPUBuffer => {
    const all = { weight: this.#weights, state: this.#states, shared: this.#shared };
    return all[kind][index] as GPUBuffer;
  };

  /** Binds a program to the tensors of a call; `output`, where given, replaces the call's own. */
  bound(call: number, program: Program, output?: GPUBuffer): BoundProgram {
    return new BoundProgram(program, this.operands(call, program, output));
  }

  /** Binds a program that may be without the uniform of slices to the tensors of a call. */
  boundWhole(call: number, program: Program): BoundCall {
    return boundTo(program, this.operands(call, program));
  }

  /** Returns the buffers that a program is bound to in the place of a call, those of ABI 1. */
  operands(call: number, program: Program, output?: GPUBuffer): readonly GPUBuffer[] {
    const { scratch_bytes } = program.kernel;
    const own = (this.placement.calls[call] as readonly BufferOf[]).map(this.of);
    const operands = output === undefined ? own : [...own.slice(0, -1), output];
    return scratch_bytes > 0 ? [...operands, this.#scratchOf(scratch_bytes)] : operands;
  }

  /**
   * Returns buffers with the same weights, and activations, states and scratch of their own, for
   * runs beside those of the model.
   */
  apart(): PlanBuffers {
    return new PlanBuffers(this.#answer, this.placement, this.#device, this.#weights);
  }

  /** Destroys activations, states and scratch; weights stay. */
  dispose(): void {
    for (const buffer of [...this.#shared, ...this.#states]) buffer.destroy();
    this.#scratch?.destroy();
  }

  /** Calls follow each other, so that they share one scratch buffer. */
  #scratchOf(bytes: number): GPUBuffer {
    if ((this.#scratch?.size ?? 0) < bytes) this.#scratch = this.#made(bytes);
    return this.#scratch as GPUBuffer;
  }

  /** Writes a part of a weight. */
  put(index: number, at: number, part: Bytes): void {
    writeEntries(this.#device, this.#weights[index] as GPUBuffer, part, at);
  }

  /** Takes the weights file in order. */
  take(offset: number, bytes: Bytes): void {
    const { weights } = this.#answer.plan;
    const end = offset + bytes.length;
    for (let weight = weights[this.#next]; weight !== undefined; weight = weights[this.#next]) {
      const [from, to] = [
        Math.max(offset, weight.offset),
        Math.min(end, weight.offset + weight.bytes),
      ];
      if (from < to) {
        this.put(this.#next, from - weight.offset, bytes.subarray(from - offset, to - offset));
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

/** The texts of kernels by their hashes, on their way. They reject with KernelZooError: network, artifact. */
function textsOf(
  { origin, graph }: LoadOrder,
  kernels: ReadonlyMap<number, KernelWire>,
): ReadonlyMap<string, Promise<string>> {
  const texts = new Map<string, Promise<string>>();
  const fetched = async (kernel: KernelWire): Promise<string> =>
    graph?.texts?.[kernel.sha256] ?? fetchText(new URL(origin), kernel);
  for (const kernel of kernels.values()) {
    if (texts.has(kernel.sha256)) continue;
    const text = fetched(kernel);
    text.catch(() => undefined); // Those who compile it see the rejection.
    texts.set(kernel.sha256, text);
  }
  return texts;
}

/**
 * The programs of the kernels by their numbers; equal texts are compiled once. Kernels of one text may
 * differ in how many workgroups they take: rows of a product are no part of it.
 */
async function compileAll(
  order: LoadOrder,
  kernels: ReadonlyMap<number, KernelWire>,
  open: OpenDevice,
  progress: (progress: Progress) => void,
  compile: typeof compileProgram,
  texts = textsOf(order, kernels),
): Promise<ReadonlyMap<number, Program>> {
  const sizes = new Map(
    [...kernels.values()].map(({ sha256, size_bytes }) => [sha256, size_bytes]),
  );
  const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  let loaded = 0;
  const programs = new Map<string, Promise<Program>>();
  const program = async (kernel: KernelWire, workload: string): Promise<Program> => {
    const code = await (texts.get(kernel.sha256) as Promise<string>);
    try {
      const compiled = await compile(open, kernel, code, COMPILE_MS);
      loaded += kernel.size_bytes;
      progress({ phase: "kernels", loaded, total });
      return compiled;
    } catch (thrown) {
      throw blamed(workload, kernel, thrown);
    }
  };
  const { plan } = order.answer;
  const compiled = await Promise.all(
    [...kernels].map(([i, kernel]) => {
      const { sha256 } = kernel;
      const known = programs.get(sha256) ?? program(kernel, plan.kernels[i] as string);
      programs.set(sha256, known);
      return known.then((compiled) => [i, { ...compiled, kernel }] as const);
    }),
  );
  return new Map(compiled);
}

/** A kernel that a driver refuses is to blame; a lost device is nobody's fault. */
function blamed(workload: string, { sha256 }: KernelWire, thrown: unknown): unknown {
  const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
  if (stage !== "validate" && stage !== "compile") return thrown;
  return new WrongKernel({ workload, artifact: sha256, stage, message: sentence(thrown) });
}
