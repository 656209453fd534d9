/**
 * Bits of ρ (docs/adr/0004, 0009): the ratio of two rates where it is clear, and a duel where it is
 * in doubt.
 *
 * A duel is rounds in which both settings take part; the first to win five is the faster.
 * Neighbours in time are disturbed alike, and a round that is not costs one vote. A bit is then
 * that of the median round of nine, and most bits take five rounds.
 */
import type { Clock } from "../timing/clock.js";
import { breather, type Entrant, filledMs } from "./race.js";

/**
 * A ratio this close to its margin may be on the other side of it: a neighbour that shares the core
 * slows one setting more than the other. Farther away the best samples of a race are the surer
 * witness: on a busy Xeon whose ratio of fma is 1.28, duels over a margin of 1.15 were lost.
 */
const DOUBTFUL_WITHIN = 1.07;

/** '1' where the advanced setting is at least `margin` times as fast; 0 is a missing rate. */
export function bit(base: number, advanced: number, margin: number): "0" | "1" {
  return advanced > 0 && advanced >= margin * base ? "1" : "0";
}

/**
 * Returns whether the ratio of advanced over base is so close to the margin that noise may turn the
 * bit.
 */
export function doubtful(ratio: number, margin: number): boolean {
  return ratio >= margin / DOUBTFUL_WITHIN && ratio < margin * DOUBTFUL_WITHIN;
}

const VOTES = 5;

export interface DuelLimits {
  /** A sample lasts at least half of this. */
  readonly sampleMs: number;
  readonly limitMs: number;
}

/**
 * The answer of a duel; one that ran out of time answers by its rounds so far and is not settled.
 */
export interface DuelVerdict {
  readonly faster: boolean;
  readonly settled: boolean;
}

/** Decides by a duel whether `advanced` is at least `margin` times as fast as `base`. */
export async function faster(
  base: Entrant,
  advanced: Entrant,
  margin: number,
  { sampleMs, limitMs }: DuelLimits,
  clock: Clock,
): Promise<DuelVerdict> {
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
