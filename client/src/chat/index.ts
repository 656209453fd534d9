/** `kernelzoo/chat`: text and conversations of a language model. */
export {
  type ChatClient,
  ChatCompletions,
  type ChatOptions,
  chatClient,
  type RequestOptions,
} from "./completions.js";
export { chatFetch } from "./fetch.js";
export { generateText, type TextEnd, type TextOptions, type TokenSource } from "./text.js";
export {
  type ChatMessage,
  type ChatTemplate,
  type LoadedTokenizer,
  loadTokenizer,
  type TemplateOptions,
  type Tokenizer,
  type TokenizerOptions,
  type TokenizerPackages,
} from "./tokenizer.js";
export type * from "./types.js";
