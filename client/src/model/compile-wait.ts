/**
 * Waits for kernels that the zoo is compiling: those of a model that was added a moment ago. Loaded
 * where some are missing.
 */
import { KernelZooError } from "../engine/error.js";
import type { Progress } from "../executor/messages.js";
import { after } from "../timing/clock.js";
import { targetOf } from "../wire/model-answer.js";
import type { Host } from "./host.js";
import type { Answered } from "./request.js";

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 500;
/** The longest wait where the browser's signals do not tell of the time (gateway/deadline.ts). */
const LONGEST_MS = 60_000;

export interface CompileWait {
  readonly progress: (progress: Progress) => void;
  readonly signal: AbortSignal | undefined;
}

/**
 * Asks again for an answer until none of its kernels is missing, for as long as one request may
 * take. Throws KernelZooError (manifest), which says what to do; what `ask` throws; and the reason
 * of a signal.
 */
export async function compiled(
  { deadline }: Host,
  first: Answered,
  ask: () => Promise<Answered>,
  { progress, signal }: CompileWait,
): Promise<Answered> {
  const until = deadline();
  const began = performance.now();
  let answered = first;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    const { name, missing, compiling = [], plan } = answered.answer;
    const total = plan.kernels.length;
    if (missing.length === 0) return answered;
    const lacking = missing.find((workload) => !compiling.includes(workload));
    if (lacking !== undefined) {
      const target = targetOf(answered.answer);
      const text = `The zoo has no kernel of ${target} for ${lacking}, which ${name} needs, and compiles none.`;
      const remedy = `On its machine, kernelzoo models add FILE --name ${name} --target ${target} says why.`;
      throw new KernelZooError("manifest", `${text} ${remedy}`);
    }
    progress({ phase: "compile", loaded: total - missing.length, total });
    signal?.throwIfAborted();
    if (until.aborted && (until.reason as Error | null)?.name !== "TimeoutError")
      throw until.reason;
    const elapsedMs = performance.now() - began;
    if (until.aborted || (AbortSignal.any === undefined && elapsedMs > LONGEST_MS)) {
      const text = `The zoo is still compiling ${missing.length} of the ${total} kernels of ${name} after ${Math.round(elapsedMs / 1000)} s.`;
      const remedy =
        "Open it again in a moment, or give KernelZoo.open a larger timeoutMs; if it stays so, a compile worker must run where the zoo is.";
      throw new KernelZooError("manifest", `${text} ${remedy}`);
    }
    await after(waitMs);
    answered = await ask();
  }
}
