/** What turns text into tokens and back: nothing of our own, but what other packages have. */

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/**
 * A tokenizer of `@huggingface/tokenizers` or of transformers.js, or any object of this shape.
 */
export interface Tokenizer {
  encode(
    text: string,
    options?: { readonly add_special_tokens?: boolean },
  ): readonly number[] | { readonly ids: readonly number[] };
  decode(ids: number[], options?: { readonly skip_special_tokens?: boolean }): string;
  /** As transformers.js has it: the text of a conversation as the model was trained to read it. */
  apply_chat_template?(
    messages: ChatMessage[],
    options: { readonly tokenize: false; readonly add_generation_prompt: true },
  ): unknown;
}

/** A template for conversations, such as a `Template` of `@huggingface/jinja`. */
export interface ChatTemplate {
  render(context: Record<string, unknown>): string;
}

/** What `loadTokenizer` makes them with: `Tokenizer` and `Template` of the two packages. */
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

async function fetched(url: URL, signal: AbortSignal | undefined): Promise<Response | null> {
  const response = await fetch(url, signal ? { signal } : {});
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${url} answered ${response.status}.`);
  return response;
}

/** Newer models have their template in a file of its own. */
async function templateText(
  folder: URL,
  { chat_template: told }: TokenizerConfig,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (typeof told === "string") return told;
  if (told !== undefined) return told.find(({ name }) => name === "default")?.template;
  return (await fetched(new URL("chat_template.jinja", folder), signal))?.text();
}

/**
 * The tokenizer of a model whose `tokenizer.json` and `tokenizer_config.json` lie at `url`, as the
 * Hugging Face hub has them, and its template. Rejects where one of them is not there.
 */
export async function loadTokenizer(
  url: string | URL,
  { Tokenizer, Template }: TokenizerPackages,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<LoadedTokenizer> {
  const address = new URL(url, globalThis.location?.href);
  const folder = new URL(address.pathname.endsWith("/") ? address : `${address}/`);
  const read = async (name: string): Promise<object> => {
    const response = await fetched(new URL(name, folder), signal);
    // Servers of single pages answer with the page where a file is not there.
    const told = await response?.json().catch(() => null);
    if (told) return told;
    throw new Error(`${folder} has no ${name}. Copy it there from the folder of the model.`);
  };
  const reading = read("tokenizer_config.json") as Promise<TokenizerConfig>;
  reading.catch(() => undefined); // Where both are missing, the other is named.
  const tokenizer = await read("tokenizer.json");
  const config = await reading;
  const text = await templateText(folder, config, signal);
  const template = text === undefined ? undefined : new Template(text);
  const render: ChatTemplate["render"] = (context) =>
    (template as ChatTemplate).render({ ...specialTokens(config), ...context });
  return { tokenizer: new Tokenizer(tokenizer, config), template: template && { render } };
}

/** A conversation as the tokens that the model's answer follows. Throws for one without a template. */
export function promptOf(
  tokenizer: Tokenizer,
  template: ChatTemplate | undefined,
  messages: readonly ChatMessage[],
): readonly number[] {
  const given = messages.map(({ role, content }) => ({ role, content }));
  const text = template
    ? template.render({ messages: given, add_generation_prompt: true })
    : tokenizer.apply_chat_template?.(given, { tokenize: false, add_generation_prompt: true });
  if (typeof text !== "string") {
    throw new TypeError(
      "There is no template for conversations: give one as `template`, or a tokenizer with " +
        "apply_chat_template.",
    );
  }
  // A template writes the special tokens itself.
  return idsOf(tokenizer, text, false);
}
