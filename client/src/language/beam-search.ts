/**
 * Follows several texts at once, and finds the one whose tokens are the likeliest together: beam
 * search as transformers has it (BeamSearchScorer with early_stopping=False).
 */
import type { DecodeOrder } from "./decode-order.js";
import { Adjustment } from "./wasm/adjuster.js";

/** A decoder that has the keys and values of several texts, each in a slot. */
export interface BeamDecoder {
  /**
   * Runs the decoder on a token at a place behind the text of a slot, whose keys and values those of
   * the token join. Returns the logits, which the caller may change; null where the run was aborted.
   */
  readonly logits: (slot: number, token: number, place: number) => Promise<Float32Array | null>;
  /** Gives a slot the keys and values of another one, of so many places. */
  readonly copy: (from: number, to: number, places: number) => void;
}

interface Beam {
  readonly text: readonly number[];
  /** The sum of the logarithms of the tokens' probabilities. */
  readonly score: number;
  readonly slot: number;
}

interface Grown {
  readonly beam: Beam;
  readonly token: number;
  readonly score: number;
}

interface Finished {
  readonly text: readonly number[];
  readonly score: number;
}

/** The tokens of the largest logits, `count` of them, with the logarithms of their probabilities. */
function likeliestTokens(logits: Float32Array, count: number): { token: number; power: number }[] {
  const most = logits.reduce((left, right) => Math.max(left, right), -Infinity);
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0);
  const kept: number[] = [];
  for (const [token, logit] of logits.entries()) {
    if (kept.length === count && logit <= (logits[kept.at(-1) as number] as number)) continue;
    let at = kept.length;
    while (at > 0 && (logits[kept[at - 1] as number] as number) < logit) at -= 1;
    kept.splice(at, 0, token);
    kept.length = Math.min(kept.length, count);
  }
  const normaliser = most + Math.log(total);
  return kept.map((token) => ({ token, power: (logits[token] as number) - normaliser }));
}

/**
 * Gives each text that goes on a slot with the keys and values of the one that it was grown from:
 * the first of several keeps that one's.
 */
function placed(
  next: readonly Grown[],
  count: number,
  places: number,
  decoder: BeamDecoder,
): readonly Beam[] {
  const parents = new Set(next.map(({ beam }) => beam.slot));
  const free = Array.from({ length: count }, (_, slot) => slot).filter((n) => !parents.has(n));
  const taken = new Set<number>();
  return next.map(({ beam, token, score }) => {
    let { slot } = beam;
    if (taken.has(slot)) {
      const from = slot;
      slot = free.pop() as number;
      decoder.copy(from, slot, places);
    }
    taken.add(slot);
    return { text: [...beam.text, token], score, slot };
  });
}

/**
 * Returns the tokens of the likeliest text behind a prompt, without the one that ends it; null where
 * a run was aborted. Slot 0 of the decoder has the keys and values of all tokens of the prompt but the
 * last.
 */
export async function beamSearch(
  order: DecodeOrder,
  decoder: BeamDecoder,
): Promise<Int32Array<ArrayBuffer> | null> {
  const { prompt, tokens, sampling, beams } = order;
  const { count, lengthPenalty, stop } = beams as NonNullable<typeof beams>;
  const last = (order.place ?? 0) + prompt.length - 1;
  // So many that as many texts go on though all tokens that end a text are among them.
  const most = Math.max(2, 1 + stop.length) * count;
  let live: readonly Beam[] = [{ text: [], score: 0, slot: 0 }];
  let finished: Finished[] = [];
  const finish = (text: readonly number[], score: number, length: number): void => {
    finished.push({ text, score: score / Math.max(1, length) ** lengthPenalty });
    finished = finished.sort((left, right) => right.score - left.score).slice(0, count);
  };
  let done = false;
  for (let length = 0; length < tokens && !done; length++) {
    const grown: Grown[] = [];
    for (const beam of live) {
      const token = beam.text.at(-1) ?? (prompt.at(-1) as number);
      const logits = await decoder.logits(beam.slot, token, last + length);
      if (logits === null) return null;
      if (order.adjusted) {
        const adjustment = new Adjustment(order.known, last + 1);
        for (const [i, token] of beam.text.entries()) adjustment.note(token, last + 1 + i);
        adjustment.adjust(logits, last + 1 + length, sampling);
      }
      for (const { token, power } of likeliestTokens(logits, most)) {
        grown.push({ beam, token, score: beam.score + power });
      }
    }
    grown.sort((left, right) => right.score - left.score);
    const next: Grown[] = [];
    for (const [rank, candidate] of grown.slice(0, most).entries()) {
      if (next.length === count) break;
      if (!stop.includes(candidate.token)) next.push(candidate);
      else if (rank < count) finish(candidate.beam.text, candidate.score, length + 1);
    }
    const best = (grown[0] as Grown).score / (length + 1) ** lengthPenalty;
    done = finished.length === count && (finished.at(-1) as Finished).score >= best;
    live = placed(next, count, last + length + 1, decoder);
  }
  if (!done) for (const { text, score } of live) finish(text, score, text.length);
  return Int32Array.from((finished[0] as Finished).text);
}
