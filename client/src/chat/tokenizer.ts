/** Turns text into tokens and back, by nothing of our own but what other packages have. */
import { beginsAsHtml, htmlSentence } from "../gateway/html.js";
import { refuseUnknown } from "./options.js";

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
}

/** A template is told these beside the messages. */
export type TemplateOptions = Readonly<Record<string, unknown>>;

/**
 * A tokenizer of `@huggingface/tokenizers` or of transformers.js, or any object of this shape.
 */
export interface Tokenizer {
  encode(
    text: string,
    options?: { readonly add_special_tokens?: boolean },
  ): readonly number[] | { readonly ids: readonly number[] };
  decode(ids: number[], options?: { readonly skip_special_tokens?: boolean }): string;
  /**
   * Renders as transformers.js does: the text of a conversation as the model was trained to read
   * it.
   */
  apply_chat_template?(
    messages: ChatMessage[],
    options: TemplateOptions & { readonly tokenize: false; readonly add_generation_prompt: true },
  ): unknown;
}

/** A template for conversations, such as a `Template` of `@huggingface/jinja`. */
export interface ChatTemplate {
  render(context: Record<string, unknown>): string;
  /** The template as it is written, where that is known: it says what the template reads. */
  readonly text?: string;
}

/** `loadTokenizer` makes them with these: `Tokenizer` and `Template` of the two packages. */
export interface TokenizerPackages {
  readonly Tokenizer: new (tokenizer: object, config: object) => Tokenizer;
  readonly Template: new (template: string) => ChatTemplate;
}

export interface LoadedTokenizer {
  readonly tokenizer: Tokenizer;
  /** Undefined where the model has none: it was not trained on conversations. */
  readonly template: ChatTemplate | undefined;
}

type SpecialToken = string | { readonly content?: string } | null;

/** `tokenizer_config.json`, as far as it is read here. */
interface TokenizerConfig {
  readonly chat_template?: string | readonly { readonly name: string; readonly template: string }[];
  readonly [name: `${string}_token`]: SpecialToken;
}

export function idsOf(tokenizer: Tokenizer, text: string, special: boolean): readonly number[] {
  const encoded = tokenizer.encode(text, { add_special_tokens: special });
  return "ids" in encoded ? encoded.ids : encoded;
}

/** The names under which templates know special tokens, `bos_token` among them. */
function specialTokens(config: TokenizerConfig): Record<string, string> {
  const named = Object.entries(config).filter(([name]) => name.endsWith("_token"));
  const texts = named.map(([name, token]: [string, SpecialToken]) => {
    return [name, typeof token === "string" ? token : token?.content];
  });
  return Object.fromEntries(texts.filter(([, text]) => typeof text === "string"));
}

/**
 * The text of a file; null where there is none. Throws for a page of HTML in its place; JSON that is
 * said to be one is read.
 */
async function textAt(
  url: URL,
  remedy: string,
  signal: AbortSignal | undefined,
): Promise<string | null> {
  const response = await fetch(url, signal ? { signal } : {});
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${url} answered ${response.status}.`);
  const text = await response.text();
  const isJson = url.pathname.endsWith(".json") && parsed(text) !== null;
  const isHtml = response.headers.get("Content-Type")?.startsWith("text/html");
  if (isJson || !(isHtml || beginsAsHtml(text))) return text;
  throw new Error(`${htmlSentence(url)} ${remedy}`);
}

/** Newer models have their template in a file of its own. */
async function templateText(
  folder: URL,
  { chat_template: template }: TokenizerConfig,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (typeof template === "string") return template;
  if (template !== undefined) return template.find(({ name }) => name === "default")?.template;
  const remedy =
    "Copy the model's file there; for a model that has none, load the tokenizer with " +
    "{ conversations: false }.";
  return (await textAt(new URL("chat_template.jinja", folder), remedy, signal)) ?? undefined;
}

export interface TokenizerOptions {
  readonly signal?: AbortSignal;
  /** False for a model without a template, whose file is then not asked for; true unless told. */
  readonly conversations?: boolean;
}

/**
 * The tokenizer of a model whose `tokenizer.json` and `tokenizer_config.json` lie at `url`, as the
 * Hugging Face hub has them, and its template. Rejects where one of them is not there, for a page
 * of HTML in the place of a file, and for a misspelt option.
 */
export async function loadTokenizer(
  url: string | URL,
  { Tokenizer, Template }: TokenizerPackages,
  options: TokenizerOptions = {},
): Promise<LoadedTokenizer> {
  refuseUnknown("loadTokenizer", options, ["signal", "conversations"]);
  const { signal, conversations = true } = options;
  const address = new URL(url, globalThis.location?.href);
  const folder = new URL(address.pathname.endsWith("/") ? address : `${address}/`);
  const read = async (name: string): Promise<object> => {
    const remedy = "Copy it there from the folder of the model.";
    const text = await textAt(new URL(name, folder), remedy, signal);
    const json = text === null ? null : parsed(text);
    if (json) return json;
    throw new Error(`${folder} has no ${name}. ${remedy}`);
  };
  const reading = read("tokenizer_config.json") as Promise<TokenizerConfig>;
  reading.catch(() => undefined); // Where both are missing, the other is named.
  const tokenizer = await read("tokenizer.json");
  const config = await reading;
  const text = conversations ? await templateText(folder, config, signal) : undefined;
  const loaded = { tokenizer: new Tokenizer(tokenizer, config) };
  if (text === undefined) return { ...loaded, template: undefined };
  if (beginsAsHtml(text)) throw new Error(`The template of ${folder} is a page of HTML.`);
  const template = new Template(text);
  const render: ChatTemplate["render"] = (context) =>
    template.render({ ...specialTokens(config), ...context });
  return { ...loaded, template: { render, text } };
}

/** JSON of an object; null for anything else. */
function parsed(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

/** Returns what renders conversations. Throws TypeError where there is nothing. */
function rendererOf(
  tokenizer: Tokenizer,
  template: ChatTemplate | undefined,
): (messages: readonly ChatMessage[], options: TemplateOptions) => string {
  return (messages, options) => {
    const given = messages.map((message) => ({ ...message }));
    const text = template
      ? template.render({ ...options, messages: given, add_generation_prompt: true })
      : tokenizer.apply_chat_template?.(given, {
          ...options,
          ...({ tokenize: false, add_generation_prompt: true } as const),
        });
    if (typeof text === "string") return text;
    throw new TypeError(
      "There is no template for conversations: give one as `template`, or a tokenizer with " +
        "apply_chat_template.",
    );
  };
}

/** Renders a text of its own where a template fails, so that two failures are two texts. */
const orFailure = (render: () => string): string => {
  try {
    return render();
  } catch (thrown) {
    return String(thrown);
  }
};

/** Names of a template's messages, and of what is always told. */
const OWN = ["messages", "add_generation_prompt", "tokenize"];

/** Throws TypeError for options that the template would leave unread, as far as that can be known. */
function refuseUnread(
  render: ReturnType<typeof rendererOf>,
  template: ChatTemplate | undefined,
  messages: readonly ChatMessage[],
  { chat_template_kwargs, reasoning_effort }: TemplateParameters,
): void {
  for (const name of Object.keys(chat_template_kwargs ?? {})) {
    if (OWN.includes(name)) throw new TypeError(`chat_template_kwargs.${name} cannot be given.`);
    if (template?.text === undefined || template.text.includes(name)) continue;
    throw new TypeError(
      `chat_template_kwargs.${name} is not read by the template of this model; leave it out.`,
    );
  }
  if (reasoning_effort == null) return;
  const [low, high] = ["low", "high"].map((effort) =>
    orFailure(() => render(messages, { ...chat_template_kwargs, reasoning_effort: effort })),
  );
  if (low !== high) return;
  throw new TypeError(
    "reasoning_effort is not read by the template of this model; leave it out, or tell the " +
      "template what it knows by chat_template_kwargs.",
  );
}

export interface TemplateParameters {
  readonly chat_template_kwargs?: TemplateOptions | null | undefined;
  readonly reasoning_effort?: string | null | undefined;
}

/**
 * A conversation as the tokens that the model's answer follows. Throws TypeError for one without a
 * template, and for parameters that it does not read.
 */
export function promptOf(
  tokenizer: Tokenizer,
  template: ChatTemplate | undefined,
  messages: readonly ChatMessage[],
  parameters: TemplateParameters = {},
): readonly number[] {
  const render = rendererOf(tokenizer, template);
  refuseUnread(render, template, messages, parameters);
  const { chat_template_kwargs, reasoning_effort } = parameters;
  const effort = reasoning_effort == null ? {} : { reasoning_effort };
  // A template writes the special tokens itself.
  return idsOf(tokenizer, render(messages, { ...chat_template_kwargs, ...effort }), false);
}
