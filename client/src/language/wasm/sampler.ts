/**
 * Draws a token of its logits as the kernel of `../webgpu/sampler.ts` does, with a sort in the place of its
 * searches: the same seed draws the same token at the same place of a text on either target, but for
 * choices that roundings decide.
 */
import type { Sampling } from "../decode-order.js";

/**
 * Tokens that are less likely than e to this power times the likeliest are left out where few may
 * be drawn.
 */
const LEAST_POWER = -30;
/** No noise is larger: -log(-log(1 - u)) of the least u. */
const MOST_NOISE = 17.4;

function hash(value: number): number {
  const state = (Math.imul(value, 747_796_405) + 2_891_336_453) | 0;
  const word = Math.imul((state >>> ((state >>> 28) + 4)) ^ state, 277_803_737);
  return ((word >>> 22) ^ word) | 0;
}

/** -log(E), E being drawn of the exponential distribution. */
function noise(token: number, key: number): number {
  const drawn = ((hash((key + hash((token + key) | 0)) | 0) >>> 8) + 0.5) * 2 ** -24;
  return -Math.log(-Math.log1p(-drawn));
}

/** The least logit that may be drawn. */
function leastOf(
  logits: Float32Array,
  most: number,
  { temperature, topK, topP, minP }: Sampling,
): number {
  const likely = most + temperature * Math.log(minP);
  if (topK === 0 && topP >= 1) return likely;
  const power = (logit: number): number => Math.exp((logit - most) / temperature);
  const within = logits.filter((logit) => (logit - most) / temperature > LEAST_POWER).sort();
  const mass = topP >= 1 ? Infinity : topP * logits.reduce((sum, logit) => sum + power(logit), 0);
  const count = topK === 0 ? Infinity : topK;
  let [least, before] = [most, 0];
  for (let n = 0; n < within.length && n < count && before < mass; n++) {
    least = within[within.length - 1 - n] as number;
    before += power(least);
  }
  return Math.max(least, likely);
}

/** The first of the largest logits. */
export function likeliest(logits: Float32Array): number {
  const most = logits.reduce((left, right) => Math.max(left, right), -Infinity);
  return Math.max(0, logits.indexOf(most)); // No number equals NaN.
}

/** The token at the place behind `place`. */
export function drawn(logits: Float32Array, place: number, sampling: Sampling): number {
  const { temperature, seed } = sampling;
  const most = logits.reduce((left, right) => Math.max(left, right), -Infinity);
  const least = leastOf(logits, most, sampling);
  const key = hash(place ^ hash(seed | 0));
  let [best, score] = [logits.length - 1, -Infinity];
  for (const [token, logit] of logits.entries()) {
    const power = (logit - most) / temperature;
    if (logit < least || power + MOST_NOISE <= score) continue;
    const own = power + noise(token, key);
    if (own > score) [best, score] = [token, own];
  }
  return best;
}
