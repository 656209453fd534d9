/** Text of a language model, piece by piece. */
import type { GenerateOptions, LanguageModel } from "../language/model.js";
import { Detokenizer } from "./detokenizer.js";
import { StopStrings } from "./stopping.js";
import { idsOf, type Tokenizer } from "./tokenizer.js";

/** What generates tokens: a `LanguageModel`. */
export type TokenSource = Pick<LanguageModel, "name" | "contextLength" | "generate" | "stats">;

export interface TextOptions extends Omit<GenerateOptions, "stop"> {
  readonly tokenizer: Tokenizer;
  /** The text ends before any of these, as it does at the tokens that end the model's texts. */
  readonly stop?: readonly string[];
}

/** Why a text ended: by itself or at a string of `stop`, or as there was no room for more. */
export interface TextEnd {
  readonly reason: "stop" | "length";
  readonly promptTokens: number;
  readonly tokens: number;
}

/**
 * Pieces of the text that follows a prompt, which is text or the tokens of one; the last value says
 * how it ended. Throws as `generate` of the model does.
 */
export async function* generateText(
  llm: TokenSource,
  prompt: string | readonly number[],
  { tokenizer, stop = [], ...options }: TextOptions,
): AsyncGenerator<string, TextEnd, undefined> {
  const ids = typeof prompt === "string" ? idsOf(tokenizer, prompt, true) : prompt;
  const most = Math.min(options.maxTokens ?? Infinity, llm.contextLength - ids.length);
  const [detokenizer, stops] = [new Detokenizer(tokenizer), new StopStrings(stop)];
  let tokens = 0;
  const end = (reason: TextEnd["reason"]): TextEnd => ({
    reason,
    promptTokens: ids.length,
    tokens,
  });
  for await (const id of llm.generate(ids, options)) {
    tokens += 1;
    const { text, ended } = stops.push(detokenizer.push(id));
    if (text !== "") yield text;
    if (ended) return end("stop");
  }
  const last = stops.push(detokenizer.end());
  const rest = last.ended ? last.text : last.text + stops.end();
  if (rest !== "") yield rest;
  return end(tokens < most || last.ended ? "stop" : "length");
}
