const FIRST_MS = 500;
const LONGEST_MS = 30_000;

/**
 * Wait before retry `attempt` (0 is the first): doubling from 0.5 s to 30 s, of which a random
 * half is taken off, so that agents do not return in step. `random` is in [0, 1).
 */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const longest = Math.min(FIRST_MS * 2 ** attempt, LONGEST_MS);
  return longest * (0.5 + random() / 2);
}

/** Waits; rejects with the signal's reason when it is aborted first. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}
