/**
 * Puts kernels in the place of others between two runs of a model on a GPU:
 *
 *  1. Fetch and compile. Weights lie plain there, so that nothing is packed anew.
 *  2. Run the model once on its golden inputs with the new kernels, in activations of their own and in
 *     slices that give way to runs of the page. Outputs must be right.
 *  3. Let the calls run the new kernels. Those before are kept: a kernel that disagrees with the one
 *     before on an inference's own numbers is taken back, and the inference is computed again.
 */

import { type BoundProgram, runInSlices } from "../../backend/webgpu/binding.js";
import { readBuffer } from "../../backend/webgpu/buffers.js";
import { type Buffers, Chain, LIMIT_MS } from "../../backend/webgpu/plan-loader.js";
import { loadProgram, type Program } from "../../backend/webgpu/program.js";
import { KernelZooError } from "../../engine/error.js";
import { productOf, viewOf } from "../../engine/tensors.js";
import { GoldenFile } from "../../executor/golden-file.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { RunsFirst } from "../../executor/run-priority.js";
import type { RunResult } from "../../executor/wasm-executor.js";
import type { GpuEngine } from "../../executor/webgpu-executor.js";
import { OVERFLOW } from "../../model/f16-overflow.js";
import { now } from "../../timing/clock.js";
import { kernelsOf, type PlanTensor } from "../../wire/model-answer.js";
import type { Comparison, Found, Kept } from "../messages.js";
import {
  fittingCalls,
  type Refusals,
  reasonOf,
  type SwapPorts,
  swapped,
  wrongGolden,
} from "../swap-steps.js";
import { GpuAudit } from "./audit.js";
import { OverflowAudit } from "./overflow-audit.js";

/** A kernel that is ready to run, and the calls that shall run it. */
interface Prepared {
  readonly workload: string;
  readonly program: Program;
  readonly calls: readonly number[];
}

type Bound = ReadonlyMap<number, BoundProgram>;

const DISAGREES = "It disagrees with the kernel before on an inference's numbers.";

export class GpuSwapper {
  readonly #engine: GpuEngine;
  readonly #ports: SwapPorts;
  readonly #golden: GoldenFile;
  readonly #runs: RunsFirst;
  readonly #audit: GpuAudit;
  readonly #overflow: OverflowAudit;
  /** What runs again where a kernel is taken back: that before the first swap, as on WebAssembly. */
  readonly #before = new Map<string, Bound>();

  constructor(engine: GpuEngine, ports: SwapPorts) {
    this.#engine = engine;
    this.#ports = ports;
    this.#runs = new RunsFirst(ports.breathe);
    this.#golden = new GoldenFile(engine.order, this.#runs.rest);
    this.#audit = new GpuAudit(engine);
    this.#overflow = new OverflowAudit(engine, this.#golden, this.#runs);
  }

  /** As the engine's; an inference in which a kernel is found wrong is computed again without it. */
  run(...[feeds, aborted, timed, into]: Parameters<GpuEngine["run"]>): Promise<RunResult | null> {
    return this.#runs.first(async () => {
      const audit = timed ? null : await this.#audit.next();
      if (audit === null) return this.#runWithin(feeds, aborted, timed, into);
      try {
        const result = await this.#engine.run(feeds, aborted, timed, into, audit.beside);
        if (result === null || (await audit.agrees())) return result;
      } finally {
        audit.dispose();
      }
      this.#takeBack(audit.workload, DISAGREES);
      return this.#engine.run(feeds, aborted, timed, into);
    });
  }

  /** As the engine's. Throws KernelZooError (run) with `OVERFLOW` for a run that is found to have left f16. */
  async #runWithin(
    ...[feeds, aborted, timed, into]: Parameters<GpuEngine["run"]>
  ): Promise<RunResult | null> {
    const written = timed ? null : await this.#overflow.next(feeds);
    if (written === null) return this.#engine.run(feeds, aborted, timed, into);
    try {
      const result = await this.#engine.run(feeds, aborted, timed, into, written.beside);
      if (result !== null && (await written.areInfinite()))
        throw new KernelZooError("run", OVERFLOW);
      return result;
    } finally {
      written.dispose();
    }
  }

  /** Compares the golden outputs as the engine does. */
  check(...asked: Parameters<GpuEngine["check"]>): Promise<boolean> {
    return this.#runs.first(() => this.#engine.check(...asked));
  }

  /** What each call takes by itself, once no run is wanted. Throws KernelZooError: run, timeout. */
  async times(): Promise<RunResult["times"]> {
    await this.#engine.stored;
    await this.#runs.rest();
    return this.#engine.times(this.#runs.rest);
  }

  async swap(all: readonly Found[]): Promise<Refusals> {
    await this.#engine.stored;
    return swapped<Prepared>(all, {
      prepared: (found) => this.#prepared(found),
      wrong: (prepared) => this.#wrong(prepared),
      adopt: (prepared) => this.#adopt(prepared),
    });
  }

  /**
   * Has kernels that won in an earlier visit audited beside the zoo's, as if they had taken their place
   * in this one. Throws KernelZooError (network).
   */
  async compare(all: readonly Comparison[]): Promise<void> {
    const { order, stored } = this.#engine;
    await stored;
    const loaded = kernelsOf(order);
    for (const each of all) {
      const runs = loaded(each.workload).sha256 === each.running;
      if (!runs || this.#before.has(each.workload)) continue;
      await this.#runs.rest();
      try {
        await this.#setBeside(await this.#prepared(each));
      } catch (thrown) {
        reasonOf(thrown); // It does not run here: there is nothing to compare.
      }
    }
  }

  /** Throws KernelZooError: network, manifest, artifact, validate, compile, run. */
  async #prepared(kept: Kept): Promise<Prepared> {
    const { kernel, workload } = kept;
    const { open, order } = this.#engine;
    const calls = fittingCalls(order.answer.plan, kept);
    const program = await loadProgram(open, new URL(order.origin), kernel);
    return { workload, program, calls };
  }

  /**
   * What is wrong with the golden outputs where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  async #wrong(all: readonly Prepared[]): Promise<string | null> {
    const { open, buffers } = this.#engine;
    try {
      const apart = await open.scoped(() => buffers.apart(), LIMIT_MS);
      try {
        return await this.#wrongIn(apart, all);
      } finally {
        apart.dispose();
      }
    } catch (thrown) {
      return reasonOf(thrown);
    }
  }

  /** Throws KernelZooError: network, artifact, memory, run, timeout. */
  async #wrongIn(apart: Buffers, all: readonly Prepared[]): Promise<string | null> {
    const { open, order, calls } = this.#engine;
    const { plan } = order.answer;
    const programs = new Map(
      all.flatMap((each) => each.calls.map((i) => [i, each.program] as const)),
    );
    const feeds = await this.#golden.inputs();
    const { inputs, outputs } = apart.placement;
    for (const [i, feed] of feeds.entries()) {
      const input = inputs[i] as (typeof inputs)[0];
      open.device.queue.writeBuffer(apart.of(input), 0, feed);
    }
    const bound = await open.scoped(
      () => calls.map(({ program }, i) => apart.bound(i, programs.get(i) ?? program)),
      LIMIT_MS,
    );
    try {
      const rest = this.#runs.rest;
      await runInSlices(open, new Chain(bound), now() + LIMIT_MS, { rest });
      const found: Stored[] = [];
      for (const [i, { tensor }] of plan.outputs.entries()) {
        const { dtype, shape } = plan.tensors[tensor] as PlanTensor;
        const output = apart.of(outputs[i] as (typeof outputs)[0]);
        const bytes = await readBuffer(open, output, 4 * productOf(shape), LIMIT_MS);
        found.push(viewOf(bytes, dtype, 0, productOf(shape)) as Stored);
      }
      return await wrongGolden(plan, found, this.#golden, rest);
    } finally {
      for (const each of bound) each.dispose();
    }
  }

  /**
   * Only now are they bound to the model's buffers, as those that were refused need none. Runs that are
   * under way go on with the kernels before. Throws KernelZooError: run, memory.
   */
  async #adopt(all: readonly Prepared[]): Promise<void> {
    const bound = await this.#bound(all);
    for (const [k, { workload }] of all.entries()) this.#replace(workload, bound[k] as Bound);
  }

  /** Throws KernelZooError: run, memory. */
  async #setBeside(prepared: Prepared): Promise<void> {
    const { workload } = prepared;
    const [bound] = await this.#bound([prepared]);
    this.#before.set(workload, bound as Bound);
    this.#audit.watch(workload, bound as Bound);
  }

  /** Their calls, bound to the model's buffers. Throws KernelZooError: run, memory. */
  async #bound(all: readonly Prepared[]): Promise<readonly Bound[]> {
    const { open, buffers } = this.#engine;
    const made: BoundProgram[] = [];
    const bind = (call: number, program: Program): BoundProgram => {
      const bound = buffers.bound(call, program);
      made.push(bound);
      return bound;
    };
    try {
      return await open.scoped(
        () =>
          all.map(
            ({ calls, program }) => new Map(calls.map((i) => [i, bind(i, program)] as const)),
          ),
        LIMIT_MS,
      );
    } catch (thrown) {
      for (const each of made) each.dispose();
      throw thrown;
    }
  }

  #replace(workload: string, calls: Bound): void {
    const running = this.#ofCalls(calls);
    const before = this.#before.get(workload) ?? running;
    if (before !== running) void this.#runs.release(running);
    this.#before.set(workload, before);
    this.#engine.replace(calls);
    this.#audit.watch(workload, before);
  }

  async takeBack(workload: string, reason: string): Promise<void> {
    this.#takeBack(workload, reason);
  }

  /** Runs that are under way are submitted already. */
  #takeBack(workload: string, reason: string): void {
    const before = this.#before.get(workload);
    // Of two runs that overlap both may have found it.
    if (before === undefined) return;
    this.#before.delete(workload);
    this.#audit.forget(workload);
    void this.#runs.release(this.#ofCalls(before));
    this.#engine.replace(before);
    const [again] = before.values();
    this.#ports.regressed(workload, reason, again?.program.kernel.sha256 ?? "");
  }

  #ofCalls(calls: Bound): Bound {
    return new Map([...calls.keys()].map((i) => [i, this.#engine.calls[i] as BoundProgram]));
  }
}
