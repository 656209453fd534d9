/** Kernels that are compiled for a GPU, and their calls bound to buffers of a model. */
import type { OpenDevice } from "../../backend/webgpu/device.js";
import { LIMIT_MS } from "../../backend/webgpu/plan-loader.js";
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

export const programsByCall = (all: readonly Prepared[]): ReadonlyMap<number, Program> =>
  new Map(all.flatMap(({ calls, program }) => calls.map((i) => [i, program] as const)));

/** The calls of each kernel as `bind` makes them. Throws KernelZooError (run, memory), with none left. */
export async function boundCalls<Call extends { dispose(): void }>(
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
