import { now } from "./clock.js";

/** Entries of a list that are looked at in far less than a millisecond, even in code that is not optimised. */
const STEP = 1 << 12;
const SLICE_MS = 0.5;

/** Looks at entries of a list, with a rest after each half of a millisecond, until `work` answers false. */
export async function paced(
  length: number,
  rest: () => Promise<void>,
  work: (from: number, to: number) => boolean | undefined,
): Promise<void> {
  let startMs = now();
  for (let from = 0; from < length; from += STEP) {
    if (work(from, Math.min(from + STEP, length)) === false) break;
    if (now() - startMs < SLICE_MS) continue;
    await rest();
    startMs = now();
  }
  await rest();
}
