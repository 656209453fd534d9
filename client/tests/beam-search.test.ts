/** The likeliest text of a decoder whose probabilities are written here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { beamSearch } from "../src/language/beam-search.js";
import { type DecodeOrder, GREEDY } from "../src/language/decode-order.js";

const TOKENS = 8;

/** Logits by the token before: all tokens are unlikely but those that are named. */
const logitsOf = (likely: Readonly<Record<number, number>>): Float32Array =>
  Float32Array.from({ length: TOKENS }, (_, token) => likely[token] ?? -20);

const order = (stop: readonly number[], tokens: number): DecodeOrder => ({
  source: null,
  beams: { count: 2, lengthPenalty: 1, stop },
  place: 0,
  prompt: [7],
  tokens,
  sampling: GREEDY,
  adjusted: false,
  known: [],
  logits: false,
});

test("texts go on where the likeliest tokens all end one", async () => {
  // Each of the four stops is likelier than what goes on, whose end is the likeliest of all.
  const first = logitsOf({ 0: 3, 1: 2.9, 2: 2.8, 3: 2.7, 4: 2.6, 5: 2.5 });
  const later = logitsOf({ 0: 20 });
  const decoder = {
    logits: async (_slot: number, token: number) => (token === 7 ? first : later).slice(),
    copy: () => undefined,
  };
  const text = await beamSearch(order([0, 1, 2, 3], 4), decoder);
  assert.deepEqual([...(text ?? [])], [4]);
});
