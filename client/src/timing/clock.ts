/** Milliseconds from an arbitrary start, in steps of 5 µs (isolated pages) or 100 µs. */
export type Clock = () => number;

export const now: Clock = () => performance.now();

/** Resolves after so many milliseconds, with a value where one is given. */
export const after = <T = void>(ms: number, value?: T): Promise<T> =>
  new Promise((resolve) => setTimeout(resolve, ms, value));

/** Smallest step of `clock` in milliseconds, seen over 8 ticks; at most a few ms of waiting. */
export function clockStepMs(clock: Clock = now): number {
  let smallest = Number.POSITIVE_INFINITY;
  let last = clock();
  for (let ticks = 0; ticks < 8; ) {
    const current = clock();
    if (current === last) continue;
    smallest = Math.min(smallest, current - last);
    last = current;
    ticks += 1;
  }
  // Finer steps than 5 µs are the cost of the call, not the clock's.
  return Math.max(smallest, 0.005);
}
