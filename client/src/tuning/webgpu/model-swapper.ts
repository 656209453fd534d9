/**
 * Swaps kernels of a model on a GPU. Weights lie plain there, so that nothing is packed anew. New
 * kernels are proven in activations of their own and in slices that give way to runs of the page.
 * One call at a time is computed by the kernel before it, too; an inference in which the two
 * disagree is computed anew.
 */
import { type BoundProgram, runInSlices } from "../../backend/webgpu/binding.js";
import { readBuffer } from "../../backend/webgpu/buffers.js";
import type { GpuExecutor } from "../../backend/webgpu/executor.js";
import { Chain, LIMIT_MS, type PlanBuffers } from "../../backend/webgpu/plan-loader.js";
import { loadProgram } from "../../backend/webgpu/program.js";
import { KernelZooError } from "../../engine/error.js";
import { productOf, viewOf } from "../../engine/tensors.js";
import type { Executor, RunResult } from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { OVERFLOW } from "../../model/f16-overflow.js";
import { now } from "../../timing/clock.js";
import type { PlanTensor } from "../../wire/model-answer.js";
import { type Calls, fittingCalls, type SwapPorts } from "../kernel-swapper.js";
import type { Comparison, Winner } from "../messages.js";
import { GpuAudit } from "./audit.js";
import { GpuSwapper } from "./gpu-swapper.js";
import { OverflowAudit } from "./overflow-audit.js";
import { boundApart, boundCalls, type Prepared } from "./prepared-kernel.js";

const DISAGREES = "It disagrees with the kernel before on an inference's numbers.";

export class GpuModelSwapper extends GpuSwapper<Prepared, BoundProgram, GpuExecutor> {
  readonly #audit: GpuAudit;
  readonly #overflow: OverflowAudit;

  constructor(executor: GpuExecutor, ports: SwapPorts) {
    super(executor, ports);
    this.#audit = new GpuAudit(executor);
    this.#overflow = new OverflowAudit(executor, this.golden, this.runs);
  }

  /**
   * Measures what each call takes by itself, once no run is wanted. Throws KernelZooError: run,
   * timeout.
   */
  async times(): Promise<RunResult["times"]> {
    await this.executor.stored;
    await this.runs.rest();
    return this.executor.times(this.runs.rest);
  }

  protected override async inferred(
    ...[feeds, aborted, timed, into]: Parameters<Executor["run"]>
  ): Promise<RunResult | null> {
    const audit = timed ? null : await this.#audit.next();
    if (audit === null) return this.#withinF16(feeds, aborted, timed, into);
    try {
      const result = await this.executor.run(feeds, aborted, timed, into, audit.beside);
      if (result === null || (await audit.agrees())) return result;
    } finally {
      audit.dispose();
    }
    await this.takeBack(audit.workload, DISAGREES);
    return this.executor.run(feeds, aborted, timed, into);
  }

  /** Throws KernelZooError (run) with `OVERFLOW` for a run that is found to have left f16. */
  async #withinF16(
    ...[feeds, aborted, timed, into]: Parameters<Executor["run"]>
  ): Promise<RunResult | null> {
    const written = timed ? null : await this.#overflow.next(feeds);
    if (written === null) return this.executor.run(feeds, aborted, timed, into);
    try {
      const result = await this.executor.run(feeds, aborted, timed, into, written.beside);
      if (result !== null && (await written.areInfinite())) {
        throw new KernelZooError("run", OVERFLOW);
      }
      return result;
    } finally {
      written.dispose();
    }
  }

  protected override async prepared({ kernel, workload }: Winner | Comparison): Promise<Prepared> {
    const { open, order } = this.executor;
    const calls = fittingCalls(order.answer.plan, { kernel, workload });
    const program = await loadProgram(open, new URL(order.origin), kernel);
    return { workload, kernel, program, calls };
  }

  /** Throws KernelZooError: memory, run, timeout. */
  protected override ranApart<Result>(
    all: readonly Prepared[],
    feeds: readonly Stored[],
    work: (outputs: readonly Stored[]) => Promise<Result>,
  ): Promise<Result> {
    const { open, order, calls } = this.executor;
    const { plan } = order.answer;
    const run = async (apart: PlanBuffers, bound: readonly BoundProgram[]): Promise<Result> => {
      const { inputs, outputs } = apart.placement;
      for (const [i, feed] of feeds.entries()) {
        const input = inputs[i] as (typeof inputs)[0];
        open.device.queue.writeBuffer(apart.of(input), 0, feed);
      }
      const { rest } = this.runs;
      await runInSlices(open, new Chain(bound), now() + LIMIT_MS, { rest });
      const computed: Stored[] = [];
      for (const [i, { tensor }] of plan.outputs.entries()) {
        const { dtype, shape } = plan.tensors[tensor] as PlanTensor;
        const output = apart.of(outputs[i] as (typeof outputs)[0]);
        const bytes = await readBuffer(open, output, 4 * productOf(shape), LIMIT_MS);
        computed.push(viewOf(bytes, dtype, 0, productOf(shape)) as Stored);
      }
      return work(computed);
    };
    return boundApart(this.executor, calls, all, (apart, i, own) => apart.bound(i, own), run);
  }

  /** Binds kernels to the model's buffers only now, as those that were refused need none. */
  protected override bound(all: readonly Prepared[]): Promise<readonly Calls<BoundProgram>[]> {
    const { open, buffers } = this.executor;
    return boundCalls(open, all, (call, program) => buffers.bound(call, program));
  }

  /** Runs that are under way go on with the kernels before: they are submitted already. */
  protected override replace(
    workload: string,
    calls: Calls<BoundProgram>,
    before: Calls<BoundProgram> | null,
  ): void {
    this.executor.replace(calls);
    if (before === null) this.#audit.forget(workload);
    else this.#audit.watch(workload, before);
  }

  protected override async setBeside(prepared: Prepared, running: string): Promise<void> {
    const { workload, calls } = prepared;
    const now = this.running(new Map(calls.map((i) => [i, null])));
    if ([...now.values()].some((call) => this.artifactOf(call) !== running)) return;
    const [bound] = await this.bound([prepared]);
    this.before.set(workload, bound as Calls<BoundProgram>);
    this.#audit.watch(workload, bound as Calls<BoundProgram>);
  }
}
