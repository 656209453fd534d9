/** Requests and answers of OpenAI's API for chat completions, as far as a model in a page has them. */

export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

export interface ChatCompletionMessageParam {
  readonly role: "system" | "developer" | "user" | "assistant";
  readonly content: string | readonly TextPart[];
}

export interface ChatCompletionCreateParams {
  readonly messages: readonly ChatCompletionMessageParam[];
  /** Told in the answer; there is one model. */
  readonly model?: string;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  /** As many as the context has room for unless told. */
  readonly max_completion_tokens?: number | null;
  /** The name that `max_completion_tokens` had before. */
  readonly max_tokens?: number | null;
  /** 1 unless told; 0 takes the likeliest token each time. */
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  /** No parameter of OpenAI's: draws among so many of the likeliest tokens. */
  readonly top_k?: number | null;
  /** The same seed draws the same text; another one each time unless told. */
  readonly seed?: number | null;
  readonly stop?: string | readonly string[] | null;
  /** One answer is made. */
  readonly n?: 1 | null;
}

/** With pieces of the answer as they are made. */
export interface StreamingParams extends ChatCompletionCreateParams {
  readonly stream: true;
}

export interface CompletionUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** Tokens of the prompt that the last conversation had left in the cache. */
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

export type FinishReason = "stop" | "length";

export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly message: {
      readonly role: "assistant";
      readonly content: string;
      readonly refusal: null;
    };
    readonly finish_reason: FinishReason;
    readonly logprobs: null;
  }[];
  readonly usage: CompletionUsage;
}

export interface ChatCompletionChunk {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
  /** None in the last chunk where the usage was asked for. */
  readonly choices: readonly {
    readonly index: number;
    readonly delta: { readonly role?: "assistant"; readonly content?: string };
    readonly finish_reason: FinishReason | null;
    readonly logprobs: null;
  }[];
  readonly usage?: CompletionUsage | null;
}

export interface ChatCompletionStream extends AsyncIterable<ChatCompletionChunk> {
  /** Its abort ends the stream, where that of a signal throws. */
  readonly controller: AbortController;
}
