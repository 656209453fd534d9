/** Bits of ρ: see docs/adr/0004 for the rule and 0009 for the doubt. */

/**
 * A ratio this far below its margin may be a disturbed 1: a neighbour that shares the core slows
 * the faster setting more.
 */
const DOUBTFUL_FROM = 1 / 1.2;

/** '1' where the advanced setting is at least `margin` times as fast; 0 is a missing rate. */
export function bit(base: number, advanced: number, margin: number): "0" | "1" {
  return advanced > 0 && advanced >= margin * base ? "1" : "0";
}

/** Whether a bit would be 0 by little, from the ratio of advanced over base. */
export function doubtful(ratio: number, margin: number): boolean {
  return ratio >= DOUBTFUL_FROM * margin && ratio < margin;
}
