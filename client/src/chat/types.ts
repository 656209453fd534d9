/** Requests and answers of OpenAI's API for chat completions, as far as a model in a page has them. */

export interface TextPart {
  type: "text";
  text: string;
}

/** A message that a model in a page can read; what `messages` take is wider, as OpenAI's types are. */
export interface ChatCompletionMessageParam {
  role: "system" | "developer" | "user" | "assistant";
  content: string | TextPart[];
  /** Name of who says it; templates may write it. */
  name?: string;
}

/** Any message of OpenAI's client. What is no text is refused by its name. */
export interface ChatCompletionMessageInput {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?:
    | string
    | readonly { readonly type: string; readonly text?: string }[]
    | null
    | undefined;
  readonly name?: string | undefined;
}

/** Parameters of OpenAI's that a model in a page has not; refused by name unless they ask for nothing. */
interface Refused {
  readonly audio?: unknown;
  readonly function_call?: unknown;
  readonly functions?: readonly unknown[] | null | undefined;
  readonly logprobs?: boolean | null | undefined;
  readonly modalities?: readonly string[] | null | undefined;
  readonly moderation?: unknown;
  readonly n?: number | null | undefined;
  readonly prediction?: unknown;
  readonly prompt_cache_options?: unknown;
  readonly response_format?: unknown;
  readonly service_tier?: string | null | undefined;
  readonly store?: boolean | null | undefined;
  readonly tool_choice?: unknown;
  readonly tools?: readonly unknown[] | null | undefined;
  readonly top_logprobs?: number | null | undefined;
  readonly verbosity?: string | null | undefined;
  readonly web_search_options?: unknown;
}

/** Parameters of OpenAI's that change nothing of an answer. */
interface Unread {
  readonly metadata?: Readonly<Record<string, string>> | null | undefined;
  readonly parallel_tool_calls?: boolean | undefined;
  readonly prompt_cache_key?: string | null | undefined;
  readonly prompt_cache_retention?: string | null | undefined;
  readonly safety_identifier?: string | null | undefined;
  readonly user?: string | undefined;
}

export interface ChatCompletionCreateParams extends Refused, Unread {
  readonly messages: readonly ChatCompletionMessageInput[];
  /** Told in the answer; there is one model. */
  readonly model?: string | undefined;
  readonly stream?: boolean | null | undefined;
  readonly stream_options?:
    | { readonly include_usage?: boolean; readonly include_obfuscation?: boolean }
    | null
    | undefined;
  /** Tokens of the answer at most; as many as the context has room for unless told. */
  readonly max_completion_tokens?: number | null | undefined;
  /** The name that `max_completion_tokens` had before. */
  readonly max_tokens?: number | null | undefined;
  /** 1 unless told; 0 takes the likeliest token each time. */
  readonly temperature?: number | null | undefined;
  readonly top_p?: number | null | undefined;
  /** No parameter of OpenAI's: draws among so many of the likeliest tokens. */
  readonly top_k?: number | null | undefined;
  /** No parameter of OpenAI's: draws among tokens that are at least this share as likely as the likeliest. */
  readonly min_p?: number | null | undefined;
  /** No parameter of OpenAI's: divides positive logits of tokens of prompt and answer, multiplies others. */
  readonly repetition_penalty?: number | null | undefined;
  /** Is taken from the logit of a token as often as the answer has it. */
  readonly frequency_penalty?: number | null | undefined;
  /** Is taken from the logit of each token that the answer has. */
  readonly presence_penalty?: number | null | undefined;
  /** Added to the logits of tokens, by their numbers. */
  readonly logit_bias?: Readonly<Record<string, number>> | null | undefined;
  /** Equal seeds draw equal texts; another one each time unless told. */
  readonly seed?: number | null | undefined;
  /** Strings before which the answer ends, and numbers of tokens. */
  readonly stop?: string | number | readonly (string | number)[] | null | undefined;
  /** No parameter of OpenAI's: tokens at which the answer ends, as numbers in `stop` do. */
  readonly stop_token_ids?: readonly number[] | null | undefined;
  /** A model thinks so much, where its template reads that; refused where it does not. */
  readonly reasoning_effort?: string | null | undefined;
  /** No parameter of OpenAI's: what the template is told beside the messages, as `enable_thinking`. */
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Asks for pieces of the answer as they are made. */
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
  readonly choices: {
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
  readonly choices: {
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
