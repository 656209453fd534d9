/**
 * Has the browser optimise a model's kernels before calls need them. Engines start in baseline code, 5 to
 * 11 times slower, and optimise a function once it has run for a while, on any thread: a worker beside
 * runs a part of each kernel on zeros, in a memory of its own, while the model's worker runs the first
 * calls. It takes what calls have got, so that they find optimised code instead of waiting for it.
 */
import { now } from "../timing/clock.js";
import { instantiateAll, type Linked } from "./kernels.js";
import type { Placement } from "./placement.js";

/** After so long in baseline code V8 has begun to optimise a kernel (13 MB of code run, on a Zen 5). */
const PART_MS = 2.5;
/** Parts of a kernel's range that are short in baseline code, too. */
const PARTS = 256;
const PAGE_BYTES = 65_536;

export type Warmed = Pick<Placement, "tasks" | "scratch" | "totalBytes">;

/** Each call of the answer runs one kernel for a while, in the order of first use; false when all have run. */
export function warming(
  modules: readonly Linked[],
  { tasks, scratch, totalBytes }: Warmed,
): () => boolean {
  // As large as the model's, so that all addresses are in it. Pages of it that nothing writes to take no
  // room, and what is written is a small part of the activations.
  const pages = Math.ceil(totalBytes / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  const mains = instantiateAll(modules, memory);
  const waiting = [...new Map(tasks.map((task) => [task.artifact, task] as const)).values()];
  return () => {
    const task = waiting.shift();
    const main = mains.get(task?.artifact ?? "");
    if (task === undefined || main === undefined) return false;
    const words = task.hasScratch ? [...task.words, scratch] : task.words;
    const step = Math.max(1, Math.floor(task.extent / PARTS));
    const endMs = now() + PART_MS;
    for (let lo = 0; now() < endMs; lo = lo + step < task.extent ? lo + step : 0) {
      main(...words, lo, Math.min(lo + step, task.extent));
    }
    return true;
  };
}
