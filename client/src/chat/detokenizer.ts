/** Text of tokens as they come: a character that several tokens make is told when it is whole. */
import type { Tokenizer } from "./tokenizer.js";

/** Stands where bytes are no character, or none yet. */
const REPLACEMENT = "\uFFFD";
/** Bytes that a character which is not whole may have; some decoders replace each of them. */
const MOST_OPEN = 3;
/** Beyond so many tokens the first ones are decoded no more, but for those that others look at. */
const WINDOW = 24;
const OVERLAP = 6;

/** Finds where the characters at the end begin that may become others with the next token. */
function openFrom(text: string): number {
  let start = text.length;
  while (text.length - start < MOST_OPEN && text[start - 1] === REPLACEMENT) start -= 1;
  return start;
}

/** Decodes a window of the last tokens anew with each of them, as spaces depend on the one before. */
export class Detokenizer {
  readonly #tokenizer: Tokenizer;
  #ids: number[] = [];
  /** Characters of the window that have been told. */
  #told = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** Takes a token, and returns what is certain now and has not been told. */
  push(id: number): string {
    this.#ids.push(id);
    const text = this.#text();
    const open = openFrom(text);
    const certain = text.slice(this.#told, open);
    this.#told = Math.max(this.#told, open);
    if (open === text.length && this.#ids.length > WINDOW) this.#shorten();
    return certain;
  }

  /** Returns what is left at the end, with a replacement for a character that was not finished. */
  end(): string {
    const text = this.#text().slice(this.#told);
    this.#ids = [];
    this.#told = 0;
    return text;
  }

  /** Some tokenizers refuse to decode nothing. */
  #text(): string {
    return this.#ids.length === 0
      ? ""
      : this.#tokenizer.decode(this.#ids, { skip_special_tokens: true });
  }

  #shorten(): void {
    this.#ids = this.#ids.slice(-OVERLAP);
    this.#told = this.#text().length;
  }
}
