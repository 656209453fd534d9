/** Text of a language model, piece by piece. */
import type { GenerateEnd, GenerateOptions, LanguageModel } from "../language/language-model.js";
import { Detokenizer } from "./detokenizer.js";
import { StopStrings } from "./stop-strings.js";
import { idsOf, type Tokenizer } from "./tokenizer.js";

/** A source generates tokens: a `LanguageModel` does. */
export interface TokenSource
  extends Pick<LanguageModel, "name" | "stats">,
    Partial<Pick<LanguageModel, "stopTokens">> {
  generate(
    ids: ArrayLike<number>,
    options?: GenerateOptions,
  ): AsyncGenerator<number, GenerateEnd, undefined>;
}

export interface TextOptions extends Omit<GenerateOptions, "stop"> {
  readonly tokenizer: Tokenizer;
  /** The text ends before any of these, as it does at the tokens that end the model's texts. */
  readonly stop?: readonly string[];
  /** Tokens that end the text beside those that end the model's texts. */
  readonly stopTokens?: readonly number[];
}

/**
 * A text ended for this reason: by itself or at a string of `stop`, or as there was no room for
 * more.
 */
export interface TextEnd {
  readonly reason: GenerateEnd;
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
  { tokenizer, stop = [], stopTokens = [], ...options }: TextOptions,
): AsyncGenerator<string, TextEnd, undefined> {
  const ids = typeof prompt === "string" ? idsOf(tokenizer, prompt, true) : prompt;
  const [detokenizer, stops] = [new Detokenizer(tokenizer), new StopStrings(stop)];
  const ends = stopTokens.length > 0 && { stop: [...(llm.stopTokens ?? []), ...stopTokens] };
  const generated = llm.generate(ids, { ...options, ...ends });
  let tokens = 0;
  const end = (reason: GenerateEnd): TextEnd => ({ reason, promptTokens: ids.length, tokens });
  try {
    let next = await generated.next();
    for (; !next.done; next = await generated.next()) {
      tokens += 1;
      const { text, ended } = stops.push(detokenizer.push(next.value));
      if (text !== "") yield text;
      if (ended) return end("stop");
    }
    const last = stops.push(detokenizer.end());
    const rest = last.ended ? last.text : last.text + stops.end();
    if (rest !== "") yield rest;
    return end(last.ended ? "stop" : next.value);
  } finally {
    // Nothing is computed for a text that has ended before.
    await generated.return("stop");
  }
}
