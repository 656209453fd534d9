/** Looks at runs of a plan with values of f16. Loaded with the first such model. */
import type { Stored } from "../executor/golden-tensors.js";
import type { Failure } from "../executor/messages.js";

/** The message of a run that left the numbers of f16. */
export const OVERFLOW = "overflow";

/** True where some entry is infinite or no number; a nanosecond for each. */
export const isInfinite = (tensors: readonly Stored[]): boolean =>
  tensors.some((entries) => {
    let zeros = 0;
    // A number less itself is 0, and anything else is NaN.
    for (let i = 0; i < entries.length; i++)
      zeros += (entries[i] as number) - (entries[i] as number);
    return zeros !== 0;
  });

/**
 * Returns the failure of a run whose outputs are infinite or no numbers although its feeds are
 * finite; null for any other run.
 */
export const overflowOf = (feeds: readonly Stored[], outputs: readonly Stored[]): Failure | null =>
  isInfinite(outputs) && !isInfinite(feeds)
    ? { stage: "run", message: OVERFLOW, fault: null }
    : null;
