/** A request may ask for these: every parameter of OpenAI's client by name, with its type. */
import { refuseUnknown } from "./options.js";
import type { TokenSource } from "./text.js";
import type { ChatMessage } from "./tokenizer.js";
import type {
  ChatCompletionCreateParams,
  ChatCompletionMessageInput,
  StreamingParams,
} from "./types.js";

/** A kind of value, in words that end "is to be …". */
interface ParameterKind {
  readonly words: string;
  readonly fits: (value: unknown) => boolean;
}

const isNumber = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value);
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isEmpty = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;
const isToken = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;

const between = (least: number, most: number): ParameterKind => {
  const words = `a number from ${least} to ${most}`;
  return { words, fits: (value) => isNumber(value) && value >= least && value <= most };
};
const whole = (least: number): ParameterKind => {
  const words = least === -Infinity ? "a whole number" : `a whole number of at least ${least}`;
  return { words, fits: (value) => Number.isInteger(value) && Number(value) >= least };
};
const BOOLEAN: ParameterKind = { words: "a boolean", fits: (value) => typeof value === "boolean" };
const STRING: ParameterKind = { words: "a string", fits: (value) => typeof value === "string" };
const STOPS: ParameterKind = {
  words: "a string, the number of a token, or an array of them",
  fits: (value) =>
    [value].flat().every((stop: unknown) => typeof stop === "string" || isToken(stop)),
};
const TOKENS: ParameterKind = {
  words: "an array of numbers of tokens",
  fits: (value) => Array.isArray(value) && value.every(isToken),
};
const BIASES: ParameterKind = {
  words: "an object of numbers from -100 to 100 by the numbers of tokens",
  fits: (value) =>
    isObject(value) &&
    Object.entries(value).every(([name, bias]) => {
      return /^\d+$/.test(name) && between(-100, 100).fits(bias);
    }),
};
const OBJECT: ParameterKind = { words: "an object", fits: isObject };
const POSITIVE: ParameterKind = {
  words: "a number above 0",
  fits: (value) => isNumber(value) && value > 0,
};
const TEMPERATURE: ParameterKind = {
  words: "a number of 0 or more",
  fits: (value) => isNumber(value) && value >= 0,
};
const MESSAGES: ParameterKind = {
  words: "an array of one message at least",
  fits: (value) => Array.isArray(value) && value.length > 0,
};

type ParameterName = keyof ChatCompletionCreateParams;

const KINDS: Partial<Record<ParameterName, ParameterKind>> = {
  messages: MESSAGES,
  model: STRING,
  stream: BOOLEAN,
  stream_options: OBJECT,
  max_completion_tokens: whole(1),
  max_tokens: whole(1),
  temperature: TEMPERATURE,
  top_p: between(0, 1),
  top_k: whole(0),
  min_p: between(0, 1),
  repetition_penalty: POSITIVE,
  frequency_penalty: between(-2, 2),
  presence_penalty: between(-2, 2),
  logit_bias: BIASES,
  seed: whole(-Infinity),
  stop: STOPS,
  stop_token_ids: TOKENS,
  reasoning_effort: STRING,
  chat_template_kwargs: OBJECT,
  // These change nothing of an answer.
  metadata: OBJECT,
  parallel_tool_calls: BOOLEAN,
  prompt_cache_key: STRING,
  prompt_cache_retention: STRING,
  safety_identifier: STRING,
  user: STRING,
};

/**
 * Says why a parameter asks too much of models in a page, and which of its values ask for nothing.
 */
const REFUSED: Partial<
  Record<ParameterName, { readonly why: string; readonly harmless: unknown[] }>
> = {
  audio: { why: "answer with text alone", harmless: [] },
  function_call: { why: "call no functions", harmless: ["none", "auto"] },
  functions: { why: "call no functions", harmless: [] },
  logprobs: { why: "tell no probabilities", harmless: [false] },
  modalities: { why: "answer with text alone", harmless: [["text"]] },
  moderation: { why: "moderate nothing", harmless: [] },
  n: { why: "make one answer to a request", harmless: [1] },
  prediction: { why: "take no predictions", harmless: [] },
  prompt_cache_options: { why: "keep their last conversation alone", harmless: [] },
  response_format: { why: "hold their answers to no format", harmless: [{ type: "text" }] },
  service_tier: { why: "have the visitor's device alone", harmless: ["auto", "default"] },
  store: { why: "store nothing", harmless: [false] },
  tool_choice: { why: "call no tools", harmless: ["none", "auto"] },
  tools: { why: "call no tools", harmless: [] },
  top_logprobs: { why: "tell no probabilities", harmless: [0] },
  verbosity: { why: "know no verbosity", harmless: ["medium"] },
  web_search_options: { why: "search nothing", harmless: [] },
};

/** Writes a value as a reader of a sentence wants to see it. */
function shown(value: unknown): string {
  if (typeof value === "bigint" || typeof value === "symbol") return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

const wrong = (name: string, kind: ParameterKind, value: unknown): TypeError =>
  new TypeError(`${name} is to be ${kind.words}; ${shown(value)} was given.`);

const PARAMETERS = [...Object.keys(KINDS), ...Object.keys(REFUSED)];

/** Throws TypeError for the first parameter that is not known, cannot be had, or is of another type. */
export function checkParameters(params: ChatCompletionCreateParams): void {
  if (!isObject(params)) throw wrong("The request", OBJECT, params);
  refuseUnknown("chat.completions.create", params, PARAMETERS);
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null) continue;
    const kind = KINDS[name as ParameterName];
    if (kind && !kind.fits(value)) throw wrong(name, kind, value);
    const refused = REFUSED[name as ParameterName];
    if (!refused || isEmpty(value)) continue;
    const asksForNothing = refused.harmless.some((harmless) => shown(harmless) === shown(value));
    if (!asksForNothing) {
      throw new TypeError(
        `${name} is not known to models in a page, which ${refused.why}; leave it out.`,
      );
    }
  }
  if (!MESSAGES.fits(params.messages)) throw wrong("messages", MESSAGES, params.messages);
  if (isObject(params.stream_options)) checkStreamOptions(params.stream_options);
}

function checkStreamOptions(options: Readonly<Record<string, unknown>>): void {
  refuseUnknown("stream_options", options, ["include_usage", "include_obfuscation"]);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || BOOLEAN.fits(value)) continue;
    throw wrong(`stream_options.${name}`, BOOLEAN, value);
  }
}

/** Throws TypeError for options of a request that are not known. */
export function checkOptions(options: object): void {
  const asked = Object.entries(options).filter(([, value]) => value !== undefined);
  refuseUnknown("the options of a request", Object.fromEntries(asked), ["signal"]);
}

/** The request asks for pieces of the answer. */
export const isStreaming = (params: ChatCompletionCreateParams): params is StreamingParams =>
  params.stream === true;

const ROLES = ["system", "developer", "user", "assistant"];
/** Messages of OpenAI's have these beside their text; all of it but the name is refused. */
const OF_MESSAGES = [
  ...["role", "content", "name", "refusal", "tool_calls", "tool_call_id", "function_call", "audio"],
  "annotations",
];
const CONTENT: ParameterKind = {
  words: "a string or an array of parts of text",
  fits: () => false,
};

/** The messages as a template reads them. Throws TypeError for what is no text. */
export const messagesOf = (messages: readonly ChatCompletionMessageInput[]): ChatMessage[] =>
  messages.map((message, i) => messageOf(message, `messages[${i}]`));

function messageOf(message: ChatCompletionMessageInput, at: string): ChatMessage {
  if (!isObject(message)) throw wrong(at, OBJECT, message);
  const { role, content, name, ...others } = message as ChatCompletionMessageInput;
  if (!ROLES.includes(role)) {
    throw new TypeError(
      `${at}.role is to be one of ${ROLES.join(", ")}; ${shown(role)} was given.`,
    );
  }
  refuseUnknown(`a message (${at})`, message, OF_MESSAGES);
  const asked = Object.entries(others).find(([, value]) => value != null && !isEmpty(value));
  if (asked) {
    throw new TypeError(`${at}.${asked[0]} cannot be had: models in a page read text alone.`);
  }
  if (name != null && typeof name !== "string") throw wrong(`${at}.name`, STRING, name);
  const text = { role, content: textOf(content, `${at}.content`) };
  return name == null ? text : { ...text, name };
}

function textOf(content: ChatCompletionMessageInput["content"], at: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw wrong(at, CONTENT, content);
  return content
    .map((part: unknown, i) => {
      if (!isObject(part)) throw wrong(`${at}[${i}]`, OBJECT, part);
      if (part.type !== "text") {
        throw new TypeError(`${at}[${i}] is a part of ${part.type}; text alone is known.`);
      }
      if (typeof part.text !== "string") throw wrong(`${at}[${i}].text`, STRING, part.text);
      return part.text;
    })
    .join("");
}

/** A text is generated with these. */
type Generation = Omit<NonNullable<Parameters<TokenSource["generate"]>[1]>, "stop" | "signal"> & {
  readonly stop: readonly string[];
  readonly stopTokens: readonly number[];
};

const given = <Option extends string, Value>(name: Option, value: Value | null | undefined) =>
  (value == null ? {} : { [name]: value }) as { readonly [ParameterName in Option]?: Value };

/** Parameters that were checked, by the names of the model's own options. */
export function generationOf(params: ChatCompletionCreateParams, random: () => number): Generation {
  const stops = [params.stop ?? [], params.stop_token_ids ?? []].flat(2);
  const topP = params.top_p ?? 1;
  return {
    stop: stops.filter((stop) => typeof stop === "string"),
    stopTokens: stops.filter((stop) => typeof stop === "number"),
    temperature: params.temperature ?? 1,
    // None of the probability is that of the likeliest token.
    topP: topP === 0 ? 1 : topP,
    topK: topP === 0 ? 1 : (params.top_k ?? 0),
    seed: params.seed ?? random(),
    ...given("maxTokens", params.max_completion_tokens ?? params.max_tokens),
    ...given("minP", params.min_p),
    ...given("repetitionPenalty", params.repetition_penalty),
    ...given("frequencyPenalty", params.frequency_penalty),
    ...given("presencePenalty", params.presence_penalty),
    ...given("logitBias", params.logit_bias),
  };
}
