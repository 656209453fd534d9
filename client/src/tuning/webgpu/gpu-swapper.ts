/** Swaps kernels of an executor on a GPU, whose calls are programs that are bound to buffers. */
import type { Executor } from "../../executor/executor.js";
import { type Calls, KernelSwapper } from "../kernel-swapper.js";
import type { BoundKernel, Prepared } from "./prepared-kernel.js";

/** An executor that says what its calls run, in the order of the plan. */
interface RunsCalls<Call> extends Executor {
  readonly calls: readonly Call[];
}

export abstract class GpuSwapper<
  Ready extends Prepared,
  Call extends BoundKernel,
  Runs extends RunsCalls<Call>,
> extends KernelSwapper<Ready, Call, Runs> {
  protected override running(calls: Calls<unknown>): Calls<Call> {
    const { calls: all } = this.executor;
    return new Map([...calls.keys()].map((i) => [i, all[i] as Call]));
  }

  protected override artifactOf({ program }: Call): string {
    return program.kernel.sha256 ?? "";
  }

  protected override release(calls: Calls<Call>): void {
    void this.runs.release(calls);
  }
}
