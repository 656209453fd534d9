/** Chooses a token of its logits. */
import type { Sampling } from "./order.js";

/** A number from 0 to below 1 that a seed and a place give, by PCG's output function. */
export function randomAt(seed: number, place: number): number {
  let state = (Math.imul(place ^ Math.imul(seed, 0x9e3779b9), 747796405) + 2891336453) >>> 0;
  for (let round = 0; round < 2; round++) {
    state = Math.imul((state >>> ((state >>> 28) + 4)) ^ state, 277803737) >>> 0;
    state = (state >>> 22) ^ state;
    state = (Math.imul(state, 747796405) + 2891336453) >>> 0;
  }
  return state / 2 ** 32;
}

/** The likeliest, the first of equals. */
export function likeliest(logits: Float32Array): number {
  let best = 0;
  for (let i = 1; i < logits.length; i++) {
    if ((logits[i] as number) > (logits[best] as number)) best = i;
  }
  return best;
}

/** Those that may be chosen, the likeliest first; all in their order where nothing leaves any out. */
function candidates(logits: Float32Array, { topK, topP }: Sampling): Uint32Array {
  const all = Uint32Array.from(logits, (_, i) => i);
  if (topK === 0 && topP >= 1) return all;
  const before = (i: number, j: number): number =>
    (logits[j] as number) - (logits[i] as number) || i - j;
  const sorted = all.sort(before);
  return topK > 0 ? sorted.subarray(0, topK) : sorted;
}

/** The token that `random`, from 0 to below 1, chooses. */
export function sampled(logits: Float32Array, sampling: Sampling, random: number): number {
  if (sampling.temperature === 0) return likeliest(logits);
  const tokens = candidates(logits, sampling);
  const most = logits[likeliest(logits)] as number;
  const powers = Float64Array.from(tokens, (token) =>
    Math.exp(((logits[token] as number) - most) / sampling.temperature),
  );
  const total = powers.reduce((sum, power) => sum + power, 0);
  let [count, kept] = [powers.length, total];
  if (sampling.topP < 1) {
    [count, kept] = [0, 0];
    while (count < powers.length && kept < sampling.topP * total) {
      kept += powers[count++] as number;
    }
  }
  let left = random * kept;
  for (let i = 0; i < count; i++) {
    left -= powers[i] as number;
    if (left < 0) return tokens[i] as number;
  }
  return tokens[count - 1] as number;
}
