/**
 * Looks at what a call of a plan of f16 writes in a real inference, one call in so many runs: an
 * infinity within the network may make outputs that are finite and wrong. Calls that write one for
 * the golden inputs, too, such as those of masks, are not looked at.
 */
import { padded, stagingBuffer, storedBytes, viewOfStored } from "../../backend/webgpu/buffers.js";
import type { BesideCall, GpuExecutor } from "../../backend/webgpu/executor.js";
import { LIMIT_MS } from "../../backend/webgpu/plan-loader.js";
import type { GoldenFile } from "../../executor/golden-file.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { RunsFirst } from "../../executor/run-priority.js";
import { isInfinite } from "../../model/f16-overflow.js";
import type { PlanTensor } from "../../wire/model-answer.js";
import { outputOf, RUNS, withRoom } from "./audit.js";

/** Holds what one call writes in one run. Owns its buffer until it is disposed. */
class WrittenValues {
  readonly beside: BesideCall;
  readonly #executor: GpuExecutor;
  readonly #output: PlanTensor;
  readonly #staging: GPUBuffer;

  constructor(executor: GpuExecutor, call: number) {
    this.#executor = executor;
    const { tensor, buffer: from } = outputOf(executor, call);
    this.#output = tensor;
    const bytes = padded(storedBytes(tensor));
    this.#staging = stagingBuffer(executor.open.device, bytes);
    const copies = [{ from, at: 0, to: this.#staging, offset: 0, bytes }];
    this.beside = { call, before: null, copies };
  }

  /** True where some are infinite or no numbers, once the run has ended. Throws KernelZooError: run. */
  async areInfinite(): Promise<boolean> {
    await this.#executor.open.settled(this.#staging.mapAsync(GPUMapMode.READ), LIMIT_MS);
    const held = this.#staging.getMappedRange().slice(0, storedBytes(this.#output));
    return isInfinite([viewOfStored(this.#output, held) as Stored]);
  }

  dispose(): void {
    this.#staging.destroy();
  }
}

export class OverflowAudit {
  readonly #executor: GpuExecutor;
  readonly #golden: GoldenFile;
  readonly #runs: RunsFirst;
  /** Calls that write f16, in turn. */
  #turn: readonly number[];
  /** Calls that write numbers for the golden inputs. */
  readonly #finite = new Set<number>();
  /** Runs since one was looked at. */
  #since = 0;

  constructor(executor: GpuExecutor, golden: GoldenFile, runs: RunsFirst) {
    this.#executor = executor;
    this.#golden = golden;
    this.#runs = runs;
    const calls = [...executor.order.answer.plan.calls.keys()];
    this.#turn = calls.filter((call) => outputOf(executor, call).tensor.dtype === "f16");
  }

  /** Answers what is looked at in the run that begins; null mostly. Throws KernelZooError: run. */
  async next(feeds: readonly Stored[]): Promise<WrittenValues | null> {
    this.#since += 1;
    const [first, ...others] = this.#turn;
    if (first === undefined || this.#since < RUNS || isInfinite(feeds)) return null;
    this.#since = 0;
    this.#turn = others;
    if (this.#finite.has(first)) {
      this.#turn = [...others, first];
      return this.#written(first);
    }
    // Without the golden inputs nothing is known of it.
    this.#learn(first).catch(() => undefined);
    return null;
  }

  /** Once no run is wanted. Throws KernelZooError: network, artifact, run. */
  async #learn(call: number): Promise<void> {
    const feeds = await this.#golden.inputs();
    await this.#runs.rest();
    const written = await this.#written(call);
    if (written === null) return;
    try {
      await this.#executor.run(feeds, () => false, false, [], written.beside);
      if (await written.areInfinite()) return;
    } finally {
      written.dispose();
    }
    this.#finite.add(call);
    this.#turn = [call, ...this.#turn];
  }

  #written(call: number): Promise<WrittenValues | null> {
    return withRoom(this.#executor, () => new WrittenValues(this.#executor, call));
  }
}
