/**
 * Runs a plan on the GPU: all calls of a run in one pass and one submission, of a long one in a few,
 * so that the GPU begins with the first while the others are handed over.
 */
import { productOf } from "../../engine/tensors.js";
import { type BucketCall, bucketCalls, insteadFor } from "../../executor/bucket-calls.js";
import { breathing } from "../../executor/event-loop.js";
import {
  type Executor,
  type ExecutorPorts,
  type RunResult,
  untimed,
} from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { FromRuntime, Loaded, LoadOrder } from "../../executor/messages.js";
import { spareOf, takeOutput, wholeFeed } from "../../executor/open-places.js";
import { checked } from "../../executor/output-check.js";
import { poster } from "../../rpc.js";
import { now } from "../../timing/clock.js";
import type { PortWire, WeightWire } from "../../wire/model-answer.js";
import { type BoundProgram, runInSlices, type Sliced } from "./binding.js";
import { padded, readBuffer } from "./buffers.js";
import { CallTimer } from "./call-timer.js";
import type { OpenDevice } from "./device.js";
import type { BufferOf } from "./memory.js";
import { Nudger } from "./nudger.js";
import { OverlappingRuns } from "./overlapping-runs.js";
import {
  Chain,
  LIMIT_MS,
  type LoadedPlan,
  loadOnGpu,
  type PlanBuffers,
  wholeCalls,
} from "./plan-loader.js";
import { type BufferCopy, type GpuOutput, Staging } from "./staging.js";
import { submissionAfter, submissionsOf } from "./submissions.js";
import { Uploads } from "./uploads.js";

/** A run that takes longer is submitted in slices, so that the page can draw between them. */
const WHOLE_MS = 100;
/** Runs that may be under way at once: while one is read back, the next ones compute. */
const MOST_RUNS = 3;
/**
 * The page is told so long before outputs are likely to be there: a thread that has slept for
 * milliseconds takes 0.2 more to wake.
 */
const SOON_MS = 0.4;
/** A least time grows by this factor with each run, so that an old one is forgotten. */
const FORGOTTEN = 1.05;

interface LoadPorts extends Pick<ExecutorPorts, "progress"> {
  /**
   * Is called shortly before a run ends. An executor on wasm tells nobody: telling took the thread
   * which computes 0.1 ms, and outputs were in the page no earlier.
   */
  readonly soon?: () => void;
}

const post = poster<FromRuntime>();

/** Tells the page that a run is about to end. */
export const tellSoon = (): void => post({ type: "soon" });

/** A part of a run: calls, and what is copied after them. */
interface RunPart {
  readonly work: Sliced;
  readonly copies: readonly BufferCopy[];
}

/** A call with copies after it, and what else runs before it; null for nothing. */
export interface BesideCall {
  readonly call: number;
  readonly before: BoundProgram | null;
  readonly copies: readonly BufferCopy[];
}

/** Owns the device, the weights and the buffers of one model. It ends with its worker. */
export class GpuExecutor implements Executor {
  readonly overlaps = true;
  readonly loaded: Loaded;
  /** Resolves when all weights are on the GPU. Rejects with KernelZooError: network, artifact. */
  readonly stored: Promise<void>;
  readonly order: LoadOrder;
  readonly open: OpenDevice;
  readonly buffers: PlanBuffers;
  readonly #nudger: Nudger;
  readonly #soon: () => void;
  readonly #uploads: Uploads;
  #calls: readonly BoundProgram[];
  /** Calls without the uniform of slices, by their numbers: of buckets, and for short runs. */
  readonly #whole = new Map<number, Sliced>();
  #compilesWhole = false;
  readonly #bucketCalls: readonly BucketCall[];
  readonly #runs: OverlappingRuns<Staging>;
  /** Milliseconds that the last run in slices took; infinite before the first. */
  #runMs = Number.POSITIVE_INFINITY;
  /** The least milliseconds of late for which outputs were awaited and read; infinite before. */
  #usualMs = Number.POSITIVE_INFINITY;

  private constructor(
    order: LoadOrder,
    { open, buffers, bound, stored }: LoadedPlan,
    soon: () => void = () => undefined,
  ) {
    const outputs = outputsOf(order, buffers);
    this.order = order;
    this.open = open;
    this.buffers = buffers;
    this.stored = stored;
    this.#nudger = new Nudger(open.device.queue, breathing());
    this.#soon = soon;
    this.#uploads = new Uploads(open.device, buffers.placement.inputs.map(buffers.of), MOST_RUNS);
    this.#calls = bound;
    this.#bucketCalls = bucketCalls(order.answer.plan);
    // No first run waits for them: those of the largest extents are right for all.
    if (this.#bucketCalls.length > 0) void this.#compileWhole(this.#bucketCalls, bound.length);
    this.#runs = new OverlappingRuns(
      Array.from({ length: MOST_RUNS }, () => new Staging(open.device, outputs)),
    );
    this.loaded = { memoryBytes: buffers.bytes, threads: 1, singleThreadReason: null };
  }

  /**
   * Loads kernels; weights are on their way then, and runs wait for them. Throws KernelZooError:
   * network, manifest, artifact, validate, compile, memory, profile, run; WrongKernel.
   */
  static async load(order: LoadOrder, ports: LoadPorts): Promise<GpuExecutor> {
    const placed = await loadOnGpu(order, ports);
    return placed.open.scoped(() => new GpuExecutor(order, placed, ports.soon), LIMIT_MS);
  }

  /** Wakes the browser's GPU process, as a run is about to be asked for. */
  soon(): void {
    this.open.device.queue.submit([]);
  }

  /** Copies a part of a weight, by its place in the plain file; nothing where the device is lost. */
  async read(
    address: number,
    into: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { weights } = this.order.answer.plan;
    const holds = ({ offset, bytes }: WeightWire) => offset <= address && address < offset + bytes;
    const index = weights.findIndex(holds);
    const buffer = this.buffers.of({ kind: "weight", index });
    const from = address - (weights[index] as WeightWire).offset;
    try {
      into.set(new Uint8Array(await readBuffer(this.open, buffer, into.length, LIMIT_MS, from)));
      return into;
    } catch {
      return undefined;
    }
  }

  /** The calls in the order of the plan. */
  get calls(): readonly BoundProgram[] {
    return this.#calls;
  }

  /** Has calls run other programs from the next run on. */
  replace(calls: ReadonlyMap<number, BoundProgram>): void {
    for (const i of calls.keys()) this.#whole.delete(i);
    this.#calls = this.#calls.map((call, i) => calls.get(i) ?? call);
  }

  /**
   * Outputs for `feeds`, both in the plan's order; null where `aborted` said to stop. A run may be
   * asked for before the last one has ended: three are under way at once. Outputs are in the arrays
   * `into` where these suit. Throws KernelZooError: run where the device was lost, timeout.
   */
  async run(
    feeds: readonly Stored[],
    aborted: () => boolean,
    timed = false,
    into: readonly (Stored | undefined)[] = [],
    beside: BesideCall | null = null,
  ): Promise<RunResult | null> {
    const { plan } = this.order.answer;
    const spare = spareOf(plan, feeds);
    const whole = plan.inputs.map((port, i) => wholeFeed(port, feeds[i] as Stored, spare));
    const read = await this.#runs.run(
      (staging) => this.#submit(whole, staging, aborted, beside),
      (staging) => this.#read(staging, into),
    );
    const outputs =
      read && plan.axes
        ? read.map((entries, i) => takeOutput(plan.outputs[i] as PortWire, entries, spare))
        : read;
    return outputs && { outputs, times: timed ? await this.times() : untimed() };
  }

  async #read(staging: Staging, into: readonly (Stored | undefined)[]): Promise<readonly Stored[]> {
    const start = now();
    const soon = { at: start + this.#usualMs - SOON_MS, tell: this.#soon };
    const outputs = await staging.read(into, async (mapped) => {
      await this.open.settled(this.#nudger.during(mapped, soon), LIMIT_MS);
    });
    this.#usualMs = Math.min(FORGOTTEN * this.#usualMs, now() - start);
    return outputs;
  }

  /**
   * Times each call by itself; `rest` is awaited before each pass that is timed. Throws as `run`.
   */
  async times(rest: (() => Promise<void>) | null = null): Promise<RunResult["times"]> {
    const some = this.#calls[0] as BoundProgram;
    const timer = await CallTimer.make(this.open, some, LIMIT_MS, rest);
    try {
      return await timer.times(this.#calls, LIMIT_MS);
    } finally {
      timer.dispose();
    }
  }

  /** Submits a run; false where it was aborted before its end. */
  async #submit(
    feeds: readonly Stored[],
    { copies: outputs }: Staging,
    aborted: () => boolean,
    beside: BesideCall | null,
  ): Promise<boolean> {
    const { device } = this.open;
    await this.stored;
    if (aborted()) return false;
    this.#uploads.write(feeds);
    const short = this.#runMs <= WHOLE_MS;
    let runMs = 0;
    const instead = insteadFor(this.order.answer.plan, this.#bucketCalls, feeds);
    for (const { work, copies } of this.#parts(outputs, beside, short, instead)) {
      const encoder = device.createCommandEncoder();
      if (short) {
        const pass = encoder.beginComputePass();
        work.encode(pass);
        pass.end();
      } else {
        runMs += await runInSlices(this.open, work, now() + LIMIT_MS, { aborted });
        if (runMs === Number.POSITIVE_INFINITY) return false;
      }
      for (const { from, at, to, offset, bytes } of copies) {
        encoder.copyBufferToBuffer(from, at, to, offset, bytes);
      }
      device.queue.submit([encoder.finish()]);
    }
    if (!short) this.#runMs = runMs;
    if (this.#runMs <= WHOLE_MS && !this.#compilesWhole) {
      this.#compilesWhole = true;
      void this.#compileWhole(this.order.answer.plan.calls, 0);
    }
    return true;
  }

  /**
   * Compiles kernels without the uniform of slices. Runs of a slow GPU are submitted in slices of
   * kernels, each of which reads from that uniform where it begins. A GPU that has run all kernels
   * in a moment needs no slices, and is spared the wait for the number in each kernel.
   */
  async #compileWhole(called: readonly Pick<BucketCall, "kernel">[], first: number): Promise<void> {
    const before = this.#calls;
    try {
      const calls = await wholeCalls(this.order, this.open, this.buffers, called, first);
      for (const [i, call] of calls?.entries() ?? []) {
        if (this.#calls[first + i] === before[first + i]) this.#whole.set(first + i, call);
      }
    } catch {
      // Runs go on with the kernels that they have; a lost device they find out themselves.
    }
  }

  #parts(
    copies: Staging["copies"],
    beside: BesideCall | null,
    short: boolean,
    instead: ReadonlyMap<number, number>,
  ): readonly RunPart[] {
    const calls = this.#calls.map((call, i): Sliced => {
      const ofBucket = this.#whole.get(this.#calls.length + (instead.get(i) ?? Number.NaN));
      return ofBucket ?? (short ? this.#whole.get(i) : undefined) ?? call;
    });
    if (beside === null && short) {
      const starts = submissionsOf(calls.length);
      return starts.slice(1).map((end, i) => ({
        work: new Chain(calls.slice(starts[i], end)),
        copies: copies.filter(({ part }) => part === i),
      }));
    }
    if (beside === null) return [{ work: new Chain(calls), copies }];
    const { call, before } = beside;
    const until = [...this.#calls.slice(0, call), this.#calls[call] as BoundProgram];
    if (before !== null) until.splice(call, 0, before);
    return [
      { work: new Chain(until), copies: beside.copies },
      { work: new Chain(this.#calls.slice(call + 1)), copies },
    ];
  }

  /**
   * Compares the golden outputs; false where `aborted` said to stop. Throws KernelZooError: compare
   * where an output is wrong, network, artifact, run, timeout.
   */
  check(ports: Pick<ExecutorPorts, "progress">, aborted: () => boolean): Promise<boolean> {
    return checked(this.order, (feeds) => this.run(feeds, aborted), ports);
  }
}

function outputsOf({ answer: { plan } }: LoadOrder, buffers: PlanBuffers): readonly GpuOutput[] {
  return plan.outputs.map(({ tensor, shape }, i) => {
    const from = buffers.of(buffers.placement.outputs[i] as BufferOf);
    const { dtype } = plan.tensors[tensor] as { dtype: "f32" | "i32" };
    const entries = productOf(shape);
    const bytes = padded(Float32Array.BYTES_PER_ELEMENT * entries);
    const ready = buffers.placement.ready[i] as number;
    return { part: submissionAfter(ready, plan.calls.length), from, bytes, dtype, entries };
  });
}
