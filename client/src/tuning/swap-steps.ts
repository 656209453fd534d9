/**
 * The steps of a swap: new kernels are proven by the golden outputs, and those that are right are
 * adopted together.
 */

import { maxDifference } from "../engine/difference.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { refuseMisfit } from "../executor/call-tensors.js";
import type { GoldenFile } from "../executor/golden-file.js";
import { countOff, type Stored } from "../executor/golden-tensors.js";
import { paced } from "../timing/paced-loop.js";
import type { PlanWire } from "../wire/model-answer.js";
import type { KeptKernel, Winner } from "./messages.js";

/** The calls that run a workload's kernel. Throws KernelZooError (manifest) for one of other tensors. */
export function fittingCalls(plan: PlanWire, { kernel, workload }: KeptKernel): readonly number[] {
  const number = plan.kernels.indexOf(workload);
  const fitting: number[] = [];
  for (const [i, call] of plan.calls.entries()) {
    if (call.kernel !== number) continue;
    refuseMisfit(plan, call, kernel);
    fitting.push(i);
  }
  return fitting;
}

/**
 * Says what is wrong with golden outputs; null where nothing is. Rests after each slice of them.
 */
export async function wrongGolden(
  { outputs, golden }: PlanWire,
  computed: readonly Stored[],
  file: Pick<GoldenFile, "output">,
  rest: () => Promise<void>,
): Promise<string | null> {
  /**
   * Counts the entries of an output that are off by more than `most`, which its largest entry sets.
   */
  const manyOff = async (i: number, most: number): Promise<number> => {
    let [count, at] = [0, 0];
    for await (const right of file.output(i)) {
      const own = (computed[i] as Stored).subarray(at, at + right.length);
      await paced(right.length, rest, (from, to) => {
        count += countOff(right.subarray(from, to), own.subarray(from, to), most);
      });
      at += right.length;
    }
    return count;
  };
  for (const [i, { off = 0 }] of golden.outputs.entries()) {
    let [largest, worst, at] = [0, 0, 0];
    for await (const right of file.output(i)) {
      const own = (computed[i] as Stored).subarray(at, at + right.length);
      await paced(right.length, rest, (from, to) => {
        const slice = right.subarray(from, to);
        for (const entry of slice) {
          if (Number.isFinite(entry)) largest = Math.max(largest, Math.abs(entry));
        }
        const difference = maxDifference(slice, own.subarray(from, to));
        // A difference that is not a number is worse than any.
        worst = Math.max(worst, Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference);
      });
      at += right.length;
    }
    if (worst <= golden.tolerance * largest) continue;
    if (off > 0 && (await manyOff(i, golden.tolerance * largest)) <= off) continue;
    return `The golden output ${outputs[i]?.name} is wrong with it.`;
  }
  return null;
}

/** Returns what was thrown as a reason against a kernel. Throws it again where the zoo is away. */
export function reasonOf(thrown: unknown): string {
  if (thrown instanceof KernelZooError && thrown.stage === "network") throw thrown;
  return sentence(thrown);
}

/**
 * The reasons why kernels do not run, in the kernels' order; null for those that do from now on.
 */
export type Refusals = readonly (string | null)[];

/** The steps of a swap, in their order. */
export interface SwapSteps<Prepared> {
  /** Throws KernelZooError where the kernel cannot run here. */
  readonly prepared: (winner: Winner) => Promise<Prepared>;
  /**
   * Says what is wrong with the golden outputs where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  readonly wrong: (all: readonly Prepared[]) => Promise<string | null>;
  /** Returns the kernels with which the whole is no faster, though they are faster alone. */
  readonly inVain?: (all: readonly Prepared[]) => Promise<ReadonlySet<Prepared>>;
  /** Lets calls run the new kernels from the next run on. Throws KernelZooError, with all as it was. */
  readonly adopt: (all: readonly Prepared[]) => Promise<void>;
}

const IN_VAIN = "The whole takes no less with it.";
const NONE: ReadonlySet<never> = new Set();

/**
 * Takes the steps of a swap, and answers the reasons against kernels. Throws KernelZooError
 * (network), with all as it was.
 */
export async function swapped<Prepared>(
  winners: readonly Winner[],
  { prepared, wrong, inVain, adopt }: SwapSteps<Prepared>,
): Promise<Refusals> {
  const refused = new Map<Winner, string>();
  const ready = new Map<Winner, Prepared>();
  for (const winner of winners) {
    try {
      ready.set(winner, await prepared(winner));
    } catch (thrown) {
      refused.set(winner, reasonOf(thrown));
    }
  }
  const reasons = await wrongAmong([...ready.values()], wrong);
  const refuse = (why: (kernel: Prepared) => string | undefined): void => {
    for (const [winner, kernel] of ready) {
      const reason = why(kernel);
      if (reason === undefined) continue;
      refused.set(winner, reason);
      ready.delete(winner);
    }
  };
  refuse((kernel) => reasons.get(kernel));
  try {
    const vain = (await inVain?.([...ready.values()])) ?? NONE;
    refuse((kernel) => (vain.has(kernel as never) ? IN_VAIN : undefined));
    await adopt([...ready.values()]);
  } catch (thrown) {
    for (const winner of ready.keys()) refused.set(winner, sentence(thrown));
  }
  return winners.map((winner) => refused.get(winner) ?? null);
}

/**
 * Finds the kernels with which the golden outputs are wrong, and why. All are tried together first,
 * as most are right.
 */
async function wrongAmong<Prepared>(
  all: readonly Prepared[],
  wrongOf: SwapSteps<Prepared>["wrong"],
): Promise<ReadonlyMap<Prepared, string>> {
  const reason = all.length === 0 ? null : await wrongOf(all);
  if (reason === null) return new Map();
  if (all.length === 1) return new Map([[all[0] as Prepared, reason]]);
  const wrong = new Map<Prepared, string>();
  for (const kernel of all) {
    const alone = await wrongOf([kernel]);
    if (alone !== null) wrong.set(kernel, alone);
  }
  // Each is right alone, and all together are not.
  if (wrong.size === 0) for (const kernel of all) wrong.set(kernel, reason);
  return wrong;
}
