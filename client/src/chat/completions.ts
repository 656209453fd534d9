/** Chat completions of a model in the page, asked for and answered as OpenAI's API does. */
import { generateText, type TextEnd, type TokenSource } from "./text.js";
import { type ChatTemplate, promptOf, type Tokenizer } from "./tokenizer.js";
import { Turns } from "./turns.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ChatCompletionMessageParam,
  ChatCompletionStream,
  CompletionUsage,
  StreamingParams,
} from "./types.js";

export interface ChatOptions {
  readonly tokenizer: Tokenizer;
  /** How the model reads a conversation; what the tokenizer knows of it unless told. */
  readonly template?: ChatTemplate | undefined;
}

export interface RequestOptions {
  /** Stops between two tokens; what was asked for rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Parameters that would change the answer and that are not known here, with what leaves it as it is. */
const UNKNOWN: Readonly<Record<string, readonly unknown[]>> = {
  audio: [],
  frequency_penalty: [0],
  function_call: ["none"],
  functions: [],
  logit_bias: [],
  logprobs: [false],
  n: [1],
  presence_penalty: [0],
  response_format: [],
  tool_choice: ["none"],
  tools: [],
  top_logprobs: [0],
};

/** Says what is not known, as an answer that leaves it out would be another one than was asked for. */
function refuseUnknown(params: ChatCompletionCreateParams): void {
  for (const [name, value] of Object.entries(params)) {
    const harmless = UNKNOWN[name];
    if (harmless === undefined || value === null || value === undefined) continue;
    const plain = typeof value === "object" && Object.keys(value).length === 0;
    const text = (value as { readonly type?: unknown }).type === "text";
    if (plain || text || harmless.includes(value)) continue;
    throw new TypeError(`${name} is not known to models in a page; leave it out.`);
  }
}

function textOf({ role, content }: ChatCompletionMessageParam): string {
  if (typeof content === "string") return content;
  const other = content.find(({ type }) => type !== "text");
  if (other === undefined) return content.map(({ text }) => text).join("");
  throw new TypeError(`A message of ${role} has a part of ${other.type}; text alone is known.`);
}

const stopsOf = (stop: ChatCompletionCreateParams["stop"]): readonly string[] =>
  typeof stop === "string" ? [stop] : (stop ?? []);

/** What is random here has no need to be secret. */
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
  readonly #turns = new Turns();

  /** @internal */
  constructor(llm: TokenSource, options: ChatOptions) {
    this.#llm = llm;
    this.#options = options;
  }

  /**
   * The model's answer to a conversation, or with `stream` its pieces. Requests follow each other in
   * the order in which they are made; one for a stream, once it is read. Rejects with TypeError for
   * what is not known here, as `generate` of the model does, and with the reason of the signal.
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
    { signal }: RequestOptions = {},
  ): Promise<ChatCompletion | ChatCompletionStream> {
    refuseUnknown(params);
    const { tokenizer, template } = this.#options;
    const messages = params.messages.map((each) => ({ role: each.role, content: textOf(each) }));
    const prompt = promptOf(tokenizer, template, messages);
    const { model = this.#llm.name } = params;
    const head = { id: newId(), created: Math.floor(Date.now() / 1000), model };
    if (params.stream) return this.#stream(head, params, prompt, signal);
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
    const told = (chunk: ChatCompletionChunk): ChatCompletionChunk =>
      counted ? { ...chunk, usage: null } : chunk;
    const pieces = this.#pieces(params, prompt, signal);
    try {
      yield told(chunkOf(head, { role: "assistant", content: "" }));
      let next = await pieces.next();
      for (; !next.done; next = await pieces.next()) {
        yield told(chunkOf(head, { content: next.value }));
      }
      const { reason, usage } = next.value;
      yield told(chunkOf(head, {}, reason));
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
    const most = params.max_completion_tokens ?? params.max_tokens;
    const done = await this.#turns.take(signal);
    try {
      const { reason, promptTokens, tokens } = yield* generateText(this.#llm, prompt, {
        tokenizer,
        stop: stopsOf(params.stop),
        temperature: params.temperature ?? 1,
        topP: params.top_p ?? 1,
        topK: params.top_k ?? 0,
        seed: params.seed ?? (random()[0] as number),
        ...(typeof most === "number" && { maxTokens: most }),
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
  readonly chat: { readonly completions: ChatCompletions };
}

export function chatClient(llm: TokenSource, options: ChatOptions): ChatClient {
  return { chat: { completions: new ChatCompletions(llm, options) } };
}
