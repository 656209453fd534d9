/** How long a request may take. */

/** A signal for one request: of the page's, and of a time that ends. */
export type Deadline = (ms?: number) => AbortSignal;

/** `ms` for each request unless told; browsers without `AbortSignal.any` follow `signal` alone. */
export function deadline(ms: number, signal: AbortSignal | undefined): Deadline {
  return (limitMs = ms) => {
    const late = AbortSignal.timeout(limitMs);
    return signal === undefined ? late : (AbortSignal.any?.([late, signal]) ?? signal);
  };
}

/** Whether the page gave up; that a deadline passed is the fault of who does not answer. */
export function gaveUp(signal: AbortSignal | null | undefined): boolean {
  return signal?.aborted === true && (signal.reason as Error | null)?.name !== "TimeoutError";
}
