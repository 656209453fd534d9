/** Kernels that are compiled for a GPU, and their calls bound to buffers of a model. */
import type { OpenDevice } from "../../backend/webgpu/device.js";
import { LIMIT_MS, type PlanBuffers } from "../../backend/webgpu/plan-loader.js";
import type { Program } from "../../backend/webgpu/program.js";
import type { KernelWire } from "../../wire/types.js";
import type { Calls } from "../kernel-swapper.js";

/** A kernel that is ready to run, and the calls that shall run it. */
export interface Prepared {
  readonly workload: string;
  readonly kernel: KernelWire;
  readonly program: Program;
  readonly calls: readonly number[];
}

export interface BoundKernel {
  readonly program: Program;
  dispose(): void;
}

/**
 * Does work on all calls of a model in buffers of their own, where kernels of `all` take the places
 * of others. Throws KernelZooError: memory, run.
 */
export async function boundApart<Call extends BoundKernel, Result>(
  { open, buffers }: { readonly open: OpenDevice; readonly buffers: PlanBuffers },
  calls: readonly BoundKernel[],
  all: readonly Prepared[],
  bind: (apart: PlanBuffers, call: number, program: Program) => Call,
  work: (apart: PlanBuffers, bound: readonly Call[]) => Promise<Result>,
): Promise<Result> {
  const programs = new Map(
    all.flatMap(({ calls: own, program }) => own.map((i) => [i, program] as const)),
  );
  const apart = await open.scoped(() => buffers.apart(), LIMIT_MS);
  try {
    const bound = await open.scoped(
      () => calls.map(({ program }, i) => bind(apart, i, programs.get(i) ?? program)),
      LIMIT_MS,
    );
    return await work(apart, bound).finally(() => {
      for (const call of bound) call.dispose();
    });
  } finally {
    apart.dispose();
  }
}

/** The calls of each kernel as `bind` makes them. Throws KernelZooError (run, memory), with none left. */
export async function boundCalls<Call extends Pick<BoundKernel, "dispose">>(
  open: OpenDevice,
  all: readonly Prepared[],
  bind: (call: number, program: Program) => Call,
): Promise<readonly Calls<Call>[]> {
  const bound = all.map(() => new Map<number, Call>());
  try {
    await open.scoped(() => {
      for (const [k, { calls, program }] of all.entries()) {
        for (const i of calls) bound[k]?.set(i, bind(i, program));
      }
    }, LIMIT_MS);
    return bound;
  } catch (thrown) {
    for (const calls of bound) for (const call of calls.values()) call.dispose();
    throw thrown;
  }
}
