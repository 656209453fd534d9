/**
 * Decides what to try after a failure of a model: default kernels in the place of those to blame,
 * then WebAssembly in that of the GPU, and at once where f16 cannot hold its values. Loaded with
 * the first failure.
 */
import { KernelZooError } from "../engine/error.js";
import type { Failure } from "../executor/messages.js";
import { giveUpGpu } from "../sdk/backend.js";
import type { TargetKind } from "../wire/types.js";
import { replaced } from "./blame.js";
import { OVERFLOW } from "./f16-overflow.js";
import type { Host } from "./host.js";
import type { Fallbacks } from "./planned-calls.js";
import type { Answered } from "./request.js";

/** The failure with its sentence, where it came without one. */
function worded(model: string, failure: Failure): Failure {
  const { output } = failure;
  if (failure.message === OVERFLOW) {
    const message = `A run of ${model} left the numbers of f16: values of it are infinite or no numbers.`;
    return { ...failure, message };
  }
  if (output === undefined) return failure;
  const wrong = `${model} does not compute its golden ${output} in this browser, with the kernels that every device is given first.`;
  const remedy = `kernelzoo models check ${model} says whether it does elsewhere; with check: false it runs as it is.`;
  return { ...failure, message: `${wrong} ${remedy}` };
}

/**
 * The answer to open after a failure, and the kernels of it that are replaced; null for an answer of
 * another target. Throws KernelZooError where nothing is left to try.
 */
export async function mended(
  host: Host,
  target: TargetKind,
  answered: Answered,
  fallbacks: Fallbacks,
  refused: Failure,
): Promise<readonly [Answered, Fallbacks | null]> {
  if (refused.mended) return [answered, fallbacks];
  const failure = worded(answered.answer.name, refused);
  if (refused.message === OVERFLOW) {
    const { message, stage } = failure;
    if (answered.spare !== undefined) {
      return [{ ...(await answered.spare()), reason: message }, null];
    }
    const remedy = "Give it smaller inputs, or have it added with --dtype f32.";
    throw new KernelZooError(stage, `${message} ${remedy}`);
  }
  try {
    return [answered, await replaced(host, target, answered, fallbacks, failure)];
  } catch (thrown) {
    if (answered.spare === undefined) throw thrown;
    const { stage, message } = failure;
    if (stage === "run" || stage === "timeout") giveUpGpu(message);
    return [{ ...(await answered.spare()), reason: message }, null];
  }
}
