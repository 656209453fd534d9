/**
 * What swapping kernels of a model between two runs has in common on both targets: runs go first, new
 * kernels are proven by the golden outputs, and those that are right are adopted together.
 */
import { sentence } from "../engine/error.js";
import type { Found } from "./messages.js";

/** Why each of the kernels does not run, in their order; null for those that do from now on. */
export type Refusals = readonly (string | null)[];

export interface SwapPorts {
  /** Lets messages in. */
  readonly breathe: () => Promise<void>;
  readonly regressed: (workload: string, reason: string) => void;
}

/** The steps of a swap, in their order. */
export interface SwapSteps<Prepared> {
  /** Throws KernelZooError where the kernel cannot run here. */
  readonly prepared: (found: Found) => Promise<Prepared>;
  /** What is wrong with the golden outputs where `all` run; null where nothing is. */
  readonly wrong: (all: readonly Prepared[]) => Promise<string | null>;
  /** Lets calls run the new kernels from the next run on. Throws KernelZooError, with all as it was. */
  readonly adopt: (all: readonly Prepared[]) => Promise<void>;
}

export async function swapped<Prepared>(
  found: readonly Found[],
  { prepared, wrong, adopt }: SwapSteps<Prepared>,
): Promise<Refusals> {
  const refused = new Map<Found, string>();
  const ready = new Map<Found, Prepared>();
  for (const each of found) {
    try {
      ready.set(each, await prepared(each));
    } catch (thrown) {
      refused.set(each, sentence(thrown));
    }
  }
  const reasons = await wrongAmong([...ready.values()], wrong);
  for (const [each, made] of ready) {
    const reason = reasons.get(made);
    if (reason === undefined) continue;
    refused.set(each, reason);
    ready.delete(each);
  }
  try {
    await adopt([...ready.values()]);
  } catch (thrown) {
    for (const each of ready.keys()) refused.set(each, sentence(thrown));
  }
  return found.map((each) => refused.get(each) ?? null);
}

/** Those with which the golden outputs are wrong, and why. Together first, as most are right. */
async function wrongAmong<Prepared>(
  all: readonly Prepared[],
  wrongOf: SwapSteps<Prepared>["wrong"],
): Promise<ReadonlyMap<Prepared, string>> {
  const reason = all.length === 0 ? null : await wrongOf(all);
  if (reason === null) return new Map();
  if (all.length === 1) return new Map([[all[0] as Prepared, reason]]);
  const wrong = new Map<Prepared, string>();
  for (const each of all) {
    const alone = await wrongOf([each]);
    if (alone !== null) wrong.set(each, alone);
  }
  // Each is right alone, and all together are not.
  if (wrong.size === 0) for (const each of all) wrong.set(each, reason);
  return wrong;
}
