/** Chat completions of a model in the page, asked for and answered as OpenAI's API does. */
import { refuseUnknown } from "./options.js";
import {
  checkOptions,
  checkParameters,
  generationOf,
  isStreaming,
  messagesOf,
} from "./parameters.js";
import { generateText, type TextEnd, type TokenSource } from "./text.js";
import { type ChatTemplate, promptOf, type Tokenizer } from "./tokenizer.js";
import { type Turns, turnsOf } from "./turns.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ChatCompletionStream,
  CompletionUsage,
  StreamingParams,
} from "./types.js";

export interface ChatOptions {
  readonly tokenizer: Tokenizer;
  /** The model reads a conversation so; as the tokenizer knows unless told. */
  readonly template?: ChatTemplate | undefined;
}

export interface RequestOptions {
  /** Stops between two tokens; what was asked for rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Draws numbers, which have no need to be secret here. */
const random = (): Uint32Array => crypto.getRandomValues(new Uint32Array(3));
const newId = (): string =>
  `chatcmpl-${[...random()].map((word) => word.toString(16).padStart(8, "0")).join("")}`;

/** One request: what all of its chunks say alike. */
interface Head {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

type Delta = ChatCompletionChunk["choices"][0]["delta"];

function chunkOf(
  head: Head,
  delta: Delta,
  finish_reason: TextEnd["reason"] | null = null,
): ChatCompletionChunk {
  const choice = { index: 0, delta, finish_reason, logprobs: null };
  return { ...head, object: "chat.completion.chunk", choices: [choice] };
}

/** `chat.completions` of OpenAI's client. */
export class ChatCompletions {
  readonly #llm: TokenSource;
  readonly #options: ChatOptions;
  readonly #turns: Turns;

  /** @internal */
  constructor(llm: TokenSource, options: ChatOptions) {
    this.#llm = llm;
    this.#options = options;
    this.#turns = turnsOf(llm);
  }

  /**
   * The model's answer to a conversation, or with `stream` its pieces. Requests to a model follow each
   * other in the order in which they are made, whichever client they go to; one for a stream, once it is read. Rejects with TypeError for
   * what is not known here or of another type, as `generate` of the model does, and with the reason of
   * the signal.
   */
  create(params: StreamingParams, options?: RequestOptions): Promise<ChatCompletionStream>;
  create(
    params: ChatCompletionCreateParams & { readonly stream?: false | null },
    options?: RequestOptions,
  ): Promise<ChatCompletion>;
  create(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | ChatCompletionStream>;
  async create(
    params: ChatCompletionCreateParams,
    options: RequestOptions = {},
  ): Promise<ChatCompletion | ChatCompletionStream> {
    checkParameters(params);
    checkOptions(options);
    const { signal } = options;
    const { tokenizer, template } = this.#options;
    const prompt = promptOf(tokenizer, template, messagesOf(params.messages), params);
    const model = params.model ?? this.#llm.name;
    const head = { id: newId(), created: Math.floor(Date.now() / 1000), model };
    if (isStreaming(params)) return this.#stream(head, params, prompt, signal);
    return this.#whole(head, params, prompt, signal);
  }

  async #whole(
    head: Head,
    params: ChatCompletionCreateParams,
    prompt: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<ChatCompletion> {
    const pieces = this.#pieces(params, prompt, signal);
    let content = "";
    for (let next = await pieces.next(); ; next = await pieces.next()) {
      if (!next.done) {
        content += next.value;
        continue;
      }
      const { reason, usage } = next.value;
      const message = { role: "assistant", content, refusal: null } as const;
      const choice = { index: 0, message, finish_reason: reason, logprobs: null };
      return { ...head, object: "chat.completion", choices: [choice], usage };
    }
  }

  #stream(
    head: Head,
    params: ChatCompletionCreateParams,
    prompt: readonly number[],
    signal: AbortSignal | undefined,
  ): ChatCompletionStream {
    const controller = new AbortController();
    const either = signal ? AbortSignal.any([signal, controller.signal]) : controller.signal;
    const chunks = async function* (
      completions: ChatCompletions,
    ): AsyncGenerator<ChatCompletionChunk> {
      try {
        yield* completions.#chunks(head, params, prompt, either);
      } catch (thrown) {
        if (!controller.signal.aborted) throw thrown;
      }
    };
    const iterator = chunks(this);
    return { controller, [Symbol.asyncIterator]: () => iterator };
  }

  async *#chunks(
    head: Head,
    params: ChatCompletionCreateParams,
    prompt: readonly number[],
    signal: AbortSignal,
  ): AsyncGenerator<ChatCompletionChunk> {
    const counted = params.stream_options?.include_usage === true;
    const withUsage = (chunk: ChatCompletionChunk): ChatCompletionChunk =>
      counted ? { ...chunk, usage: null } : chunk;
    const pieces = this.#pieces(params, prompt, signal);
    try {
      yield withUsage(chunkOf(head, { role: "assistant", content: "" }));
      let next = await pieces.next();
      for (; !next.done; next = await pieces.next()) {
        yield withUsage(chunkOf(head, { content: next.value }));
      }
      const { reason, usage } = next.value;
      yield withUsage(chunkOf(head, {}, reason));
      if (counted) yield { ...head, object: "chat.completion.chunk", choices: [], usage };
    } finally {
      // A page that reads no further has stopped the text.
      await pieces.return(undefined as never);
    }
  }

  /** The text by its pieces, while it is this request's turn. */
  async *#pieces(
    params: ChatCompletionCreateParams,
    prompt: readonly number[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<string, { reason: TextEnd["reason"]; usage: CompletionUsage }, undefined> {
    const { tokenizer } = this.#options;
    const done = await this.#turns.take(signal);
    try {
      const { reason, promptTokens, tokens } = yield* generateText(this.#llm, prompt, {
        tokenizer,
        ...generationOf(params, () => random()[0] as number),
        ...(signal && { signal }),
      });
      const cached_tokens = tokens > 0 ? this.#llm.stats().reusedTokens : 0;
      const total_tokens = promptTokens + tokens;
      const counts = { prompt_tokens: promptTokens, completion_tokens: tokens, total_tokens };
      return { reason, usage: { ...counts, prompt_tokens_details: { cached_tokens } } };
    } finally {
      done();
    }
  }
}

/** A client of the shape of OpenAI's, `client.chat.completions.create(…)`, for a model in the page. */
export interface ChatClient {
  /** The model's name. */
  readonly name: string;
  readonly chat: { readonly completions: ChatCompletions };
}

/** Throws TypeError for a misspelt option. */
export function chatClient(llm: TokenSource, options: ChatOptions): ChatClient {
  refuseUnknown("chatClient", options, ["tokenizer", "template"]);
  return { name: llm.name, chat: { completions: new ChatCompletions(llm, options) } };
}
