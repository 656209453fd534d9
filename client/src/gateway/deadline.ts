/** Limits how long a request may take, and tells who gave it up. */

/** Makes the signal of one request, which the page aborts, or the time that is allowed. */
export type Deadline = (ms?: number) => AbortSignal;

/** Each request has `ms` unless told. Browsers without `AbortSignal.any` follow `signal` alone. */
export function deadline(ms: number, signal: AbortSignal | undefined): Deadline {
  return (limitMs = ms) => {
    const late = AbortSignal.timeout(limitMs);
    return signal === undefined ? late : (AbortSignal.any?.([late, signal]) ?? signal);
  };
}

/**
 * Returns whether the page aborted the request. A deadline that passed is a failure of the network.
 */
export function gaveUp(signal: AbortSignal | null | undefined): boolean {
  return signal?.aborted === true && (signal.reason as Error | null)?.name !== "TimeoutError";
}
