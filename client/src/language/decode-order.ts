/**
 * Writes what a page asks of a decoder as entries of the feeds of a run, and reads it from them.
 */
import type { Stored } from "../executor/golden-tensors.js";

/** The way in which a token is chosen of the logits. */
export interface Sampling {
  /** 0 takes the likeliest. */
  readonly temperature: number;
  /** So many of the likeliest alone may be chosen; all with 0. */
  readonly topK: number;
  /** Only the likeliest that together have so much of the probability may be chosen; all with 1. */
  readonly topP: number;
  /**
   * Only tokens may be chosen that are at least this share as likely as the likeliest; all with 0.
   */
  readonly minP: number;
  /**
   * Divides the logit, or multiplies it where it is below 0, of each token that the prompt or the text
   * has; 1 leaves it.
   */
  readonly repetitionPenalty: number;
  /** Is taken from the logit of a token as often as the text behind the prompt has it. */
  readonly frequencyPenalty: number;
  /** Is taken from the logit of each token that the text behind the prompt has. */
  readonly presencePenalty: number;
  /** Seeds the choice: the same seed makes the same choice at the same place of a text. */
  readonly seed: number;
}

/** A token with what changes its logit. */
export interface KnownToken {
  readonly token: number;
  /**
   * 0 for a token that neither prompt nor text has, else 1 plus how often the text behind the
   * prompt has it.
   */
  readonly occurrences: number;
  /** Is added behind the penalties. */
  readonly bias: number;
}

/** A source for an encoder: entries of the plan's, and the places of its length that are not there. */
export interface SourceFeed {
  readonly entries: Stored;
  readonly spare: number;
}

/** The search for the likeliest text among several that are followed at once. */
export interface BeamSettings {
  readonly count: number;
  /**
   * A text's score is the sum of the logarithms of its tokens' probabilities, divided by its length to
   * this power.
   */
  readonly lengthPenalty: number;
  /** Tokens that end a text. */
  readonly stop: readonly number[];
}

export interface DecodeOrder {
  /** Given where the encoder is to read another one than before. */
  readonly source: SourceFeed | null;
  /** Given where the tokens are those of the likeliest text, which may be fewer than were asked for. */
  readonly beams: BeamSettings | null;
  /** The place of the prompt's first token; null to go on behind the last run. */
  readonly place: number | null;
  readonly prompt: readonly number[];
  /** Tokens to generate, `MOST_STEPS` at the most unless beams are followed. */
  readonly tokens: number;
  readonly sampling: Sampling;
  /** True where logits are adjusted by penalties and biases. */
  readonly adjusted: boolean;
  /**
   * The known tokens where the order has a place and logits are adjusted, else none; what is
   * generated is counted from then on.
   */
  readonly known: readonly KnownToken[];
  /** True where the logits of the last token are answered. */
  readonly logits: boolean;
}

/** Tokens that one run may generate. */
export const MOST_STEPS = 16;
/** Takes the likeliest token. */
export const GREEDY: Sampling = {
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 },
  ...{ repetitionPenalty: 1, frequencyPenalty: 0, presencePenalty: 0 },
};

const NOWHERE = -1;

const penalises = ({ repetitionPenalty, frequencyPenalty, presencePenalty }: Sampling): boolean =>
  repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;

/**
 * Returns what is known of tokens behind a prompt and the text that follows it so far; null where
 * no logit is adjusted.
 */
export function knownTokens(
  prompt: readonly number[],
  text: readonly number[],
  sampling: Sampling,
  biases: Readonly<Record<number, number>>,
): readonly KnownToken[] | null {
  const biased = Object.entries(biases);
  if (biased.length === 0 && !penalises(sampling)) return null;
  const known = new Map(prompt.map((token) => [token, { token, occurrences: 1, bias: 0 }]));
  const at = (token: number) => known.get(token) ?? { token, occurrences: 0, bias: 0 };
  for (const token of text) {
    const before = at(token);
    known.set(token, { ...before, occurrences: Math.max(1, before.occurrences) + 1 });
  }
  for (const [name, bias] of biased) known.set(Number(name), { ...at(Number(name)), bias });
  return [...known.values()];
}

export function orderFeeds(order: DecodeOrder): Stored[] {
  const { place, prompt, tokens, sampling, adjusted, known, logits, source, beams } = order;
  const { temperature, topK, topP, minP, seed } = sampling;
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
  return [
    Int32Array.of(
      ...[place ?? NOWHERE, tokens, topK, seed, Number(logits), Number(adjusted)],
      ...[source?.spare ?? NOWHERE, beams?.count ?? 0],
    ),
    Int32Array.from(prompt),
    Float32Array.of(
      ...[temperature, topP, minP, repetitionPenalty, frequencyPenalty, presencePenalty],
      beams?.lengthPenalty ?? 0,
    ),
    Int32Array.from(known.flatMap(({ token, occurrences }) => [token, occurrences])),
    Float32Array.from(known, ({ bias }) => bias),
    source?.entries.slice() ?? new Int32Array(0),
    Int32Array.from(beams?.stop ?? []),
  ];
}

type Seven<T> = readonly [T, T, T, T, T, T, T];

export function readOrder(feeds: readonly Stored[]): DecodeOrder {
  const [words, prompt, reals, counts, biases, entries, stop] = feeds as Seven<Stored>;
  const [place = NOWHERE, tokens = 0, topK = 0, seed = 0, logits = 0, adjusted = 0] = words;
  const [spare = NOWHERE, count = 0] = words.subarray(6);
  const [temperature = 0, topP = 1, minP = 0, repetitionPenalty = 1, ...penalties] = reals;
  const [frequencyPenalty = 0, presencePenalty = 0, lengthPenalty = 0] = penalties;
  const known = Array.from(biases, (bias, i) => {
    return { token: counts[2 * i] as number, occurrences: counts[2 * i + 1] as number, bias };
  });
  return {
    place: place === NOWHERE ? null : place,
    prompt: [...prompt],
    tokens,
    sampling: {
      ...{ temperature, topK, topP, minP, seed },
      ...{ repetitionPenalty, frequencyPenalty, presencePenalty },
    },
    adjusted: adjusted === 1,
    known,
    logits: logits === 1,
    source: spare === NOWHERE ? null : { entries, spare },
    beams: count === 0 ? null : { count, lengthPenalty, stop: [...stop] },
  };
}

/**
 * Returns the order that asks for the golden logits; its feeds are those of the plan: token,
 * position, prompt, and with an encoder source and spare.
 */
export function goldenOrder(feeds: readonly Stored[]): DecodeOrder {
  const [, position, prompt, entries, spare] = feeds;
  const given = [...(prompt as Stored)].slice(0, position?.[1]);
  return {
    ...{ place: 0, prompt: given, tokens: 1, sampling: GREEDY, logits: true },
    ...{ adjusted: false, known: [], beams: null },
    source: entries === undefined ? null : { entries, spare: spare?.[0] ?? 0 },
  };
}
