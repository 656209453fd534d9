/** The zoo's answer for a model, with the kernels that are fastest on this GPU. */
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { ModelAnswer } from "../../../../client/src/wire/model-answer.js";
import type { KernelWire } from "../../../../client/src/wire/types.js";
import { fastest, type Words } from "./screening.js";

export interface Tunable {
  /** The address of the zoo's answer. */
  readonly zoo: string;
  /** The kernels to choose from, by workload; those of a zoo that knows nothing come first. */
  readonly spaces: Readonly<Record<string, readonly KernelWire[]>>;
  /** The entries of inputs of i32 while kernels are timed, by workload. */
  readonly words?: Readonly<Record<string, Words>>;
}

/** By workload, nanoseconds of each candidate. */
export type Times = Record<string, readonly (readonly [string, number])[]>;

/** Answers that the page gives itself: those of the zoo with the kernels that it chose. */
const answers = new Map<string, string>();
const fetched = globalThis.fetch.bind(globalThis);
globalThis.fetch = async (input, init) => {
  const kept = answers.get(String(input instanceof Request ? input.url : input));
  return kept === undefined ? fetched(input, init) : new Response(kept);
};

/** So many candidates of each workload are timed before more of any are. */
const AT_ONCE = 40;

/**
 * Times kernels of each workload for `tuneMs` and returns their times. From then on `fetch` answers
 * with the fastest ones.
 */
export async function tuned(
  open: OpenDevice,
  { zoo, spaces, words = {} }: Tunable,
  tuneMs: number,
): Promise<Times> {
  const url = new URL(zoo, document.baseURI).href;
  const until = now() + tuneMs;
  const times: Times = {};
  const kernels: Record<string, KernelWire> = {};
  const longest = Math.max(0, ...Object.values(spaces).map(({ length }) => length));
  for (let first = 0; first < longest; first += AT_ONCE) {
    for (const [workload, space] of Object.entries(spaces)) {
      const next = space.slice(first, first + AT_ONCE);
      if (next.length === 0 || now() > until) continue;
      // The best so far takes its turns again, as times are of one clock then.
      const best = kernels[workload];
      const found = await fastest(open, best ? [best, ...next] : next, url, words[workload]);
      times[workload] = [...(times[workload] ?? []), ...found.times.slice(best ? 1 : 0)];
      if (found.chosen !== null) kernels[workload] = found.chosen;
    }
  }
  await served(zoo, kernels);
  return times;
}

/** Has `fetch` answer with these kernels, by their workloads, from then on. */
export async function served(
  zoo: string,
  chosen: Readonly<Record<string, KernelWire>>,
): Promise<void> {
  const url = new URL(zoo, document.baseURI).href;
  const answer = (await (await fetch(url)).json()) as ModelAnswer;
  const kernels = { ...answer.kernels };
  for (const [workload, kernel] of Object.entries(chosen)) {
    const before = kernels[workload];
    if (before !== undefined) kernels[workload] = { ...before, kernel };
  }
  answers.set(url, JSON.stringify({ ...answer, kernels }));
}
