/**
 * Which of two settings is faster, by rounds in which both take part: the first to win five.
 *
 * Neighbours in time are disturbed alike, and a round that is not costs one vote. A bit is then that
 * of the median round of nine, and most bits take five.
 */
import { type Clock, now } from "../timing/clock.js";
import { breather, type Entrant, filledMs } from "./race.js";

const VOTES = 5;

export interface DuelLimits {
  /** A sample lasts at least half of this. */
  readonly sampleMs: number;
  readonly limitMs: number;
}

/** A duel that ran out of time is not settled, and is as its rounds so far say. */
export interface Verdict {
  readonly faster: boolean;
  readonly settled: boolean;
}

/** Whether `advanced` is at least `margin` times as fast as `base`. */
export async function faster(
  base: Entrant,
  advanced: Entrant,
  margin: number,
  { sampleMs, limitMs }: DuelLimits,
  clock: Clock = now,
): Promise<Verdict> {
  const start = clock();
  const pair = [base, advanced] as const;
  const counts = [1, 1];
  const breathe = breather(clock);
  let [wins, losses] = [0, 0];
  for (let round = 0; wins < VOTES && losses < VOTES; round++) {
    if (round > 0 && clock() - start > limitMs) return { faster: wins > losses, settled: false };
    const rates = [0, 0];
    for (const which of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const entrant = pair[which] as Entrant;
      const { count, elapsedMs } = await filledMs(entrant, counts[which] as number, sampleMs);
      counts[which] = count;
      rates[which] = (entrant.work * count) / elapsedMs;
    }
    const [slow = 0, fast = 0] = rates;
    if (fast >= margin * slow) wins += 1;
    else losses += 1;
    await breathe();
  }
  return { faster: wins > losses, settled: true };
}
