/**
 * Decides how many calls of a prompt's block go into one submission. On a weak GPU a block of a
 * hundred calls takes seconds, and a browser that hears nothing of its GPU for so long takes it for
 * one that hangs.
 */

/** A layer and what is before it: enough to tell what a block takes. */
export const FIRST_CALLS = 8;
/** A block that takes no longer is one submission. */
const WHOLE_MS = 300;
/** A longer block is cut into submissions that take so long. */
const SLICE_MS = 150;

/** Calls of the next submission, of `all` in a block, where `count` of them took so long. */
export function callsAtOnce(count: number, tookMs: number, all: number): number {
  const eachMs = tookMs / count;
  if (eachMs * all <= WHOLE_MS) return all;
  return Math.max(1, Math.floor(SLICE_MS / eachMs));
}
