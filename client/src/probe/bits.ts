/** Bits of ρ: see docs/adr/0004 for the rule and 0009 for the doubt. */

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

/** Whether a bit would be what it is by little, from the ratio of advanced over base. */
export function doubtful(ratio: number, margin: number): boolean {
  return ratio >= margin / DOUBTFUL_WITHIN && ratio < margin * DOUBTFUL_WITHIN;
}
