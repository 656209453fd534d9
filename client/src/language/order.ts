/** What a page asks of a decoder, as entries of the feeds of a run. */
import type { Stored } from "../runtime/golden.js";

/** How a token is chosen of the logits. */
export interface Sampling {
  /** 0 takes the likeliest. */
  readonly temperature: number;
  /** So many of the likeliest alone may be chosen; all with 0. */
  readonly topK: number;
  /** The likeliest alone that together have so much of the probability; all with 1. */
  readonly topP: number;
  /** The same seed makes the same choice at the same place of a text. */
  readonly seed: number;
}

export interface DecodeOrder {
  /** The place of the prompt's first token; null to go on behind the last run. */
  readonly place: number | null;
  readonly prompt: readonly number[];
  /** Tokens to generate, `MOST_STEPS` at the most. */
  readonly tokens: number;
  readonly sampling: Sampling;
  /** Whether the logits of the last token are answered. */
  readonly logits: boolean;
}

/** Tokens that one run may generate. */
export const MOST_STEPS = 16;
/** Takes the likeliest token. */
export const GREEDY: Sampling = { temperature: 0, topK: 0, topP: 1, seed: 0 };

const NOWHERE = -1;

export function orderFeeds({ place, prompt, tokens, sampling, logits }: DecodeOrder): Stored[] {
  const { temperature, topK, topP, seed } = sampling;
  return [
    Int32Array.of(place ?? NOWHERE, tokens, topK, seed, Number(logits)),
    Int32Array.from(prompt),
    Float32Array.of(temperature, topP),
  ];
}

export function readOrder(feeds: readonly Stored[]): DecodeOrder {
  const [words, prompt, reals] = feeds as [Stored, Stored, Stored];
  const [place = NOWHERE, tokens = 0, topK = 0, seed = 0, logits = 0] = words;
  const [temperature = 0, topP = 1] = reals;
  return {
    place: place === NOWHERE ? null : place,
    prompt: [...prompt],
    tokens,
    sampling: { temperature, topK, topP, seed },
    logits: logits === 1,
  };
}

/** What asks for the golden logits; `feeds` are those of the plan: token, position, prompt. */
export function goldenOrder([, position, prompt]: readonly Stored[]): DecodeOrder {
  const given = [...(prompt as Stored)].slice(0, position?.[1]);
  return { place: 0, prompt: given, tokens: 1, sampling: GREEDY, logits: true };
}
