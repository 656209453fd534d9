/** The packages with which pages ask servers for text, asking a model in the page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import {
  type ChatCompletion,
  type ChatCompletionChunk,
  type ChatCompletionMessageParam,
  chatClient,
  chatFetch,
} from "../src/chat/index.js";
import type { GenerateEnd, GenerateOptions } from "../src/language/language-model.js";
import { END_ID, TOKENIZER_CONFIG, TOKENIZER_JSON } from "./tokenizers.js";

const tokenizer = new Tokenizer(TOKENIZER_JSON, TOKENIZER_CONFIG);
const template = new Template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
const URL_OF_NOTHING = "http://127.0.0.1:9/v1";

/** A model that says `text`, and what it was asked. */
function speaker(text: string) {
  const asked: (GenerateOptions & { readonly prompt: string })[] = [];
  let [speaking, most] = [0, 0];
  async function* generate(
    ids: ArrayLike<number>,
    options: GenerateOptions = {},
  ): AsyncGenerator<number, GenerateEnd, undefined> {
    asked.push({ ...options, prompt: tokenizer.decode(Array.from(ids)) });
    speaking += 1;
    most = Math.max(most, speaking);
    try {
      for (const id of tokenizer.encode(text).ids) {
        await new Promise(setImmediate);
        options.signal?.throwIfAborted();
        yield id;
      }
      return "stop";
    } finally {
      speaking -= 1;
    }
  }
  const stats = () => ({ reusedTokens: 0 }) as never;
  const llm = { name: "speaker", stopTokens: [END_ID], generate, stats };
  const state = () => ({ speaking, most });
  return { llm, asked, state };
}

function openAi(text: string) {
  const { llm, ...rest } = speaker(text);
  const fetch = chatFetch(chatClient(llm, { tokenizer, template }));
  const options = { apiKey: "none", baseURL: URL_OF_NOTHING, fetch, maxRetries: 0 };
  return { client: new OpenAI(options), ...rest };
}

test("OpenAI's client is answered by a model in the page, whole and in pieces", async () => {
  const { client, asked } = openAi("hello world");
  const messages = [
    { role: "system", content: "Be kind." },
    { role: "user", content: [{ type: "text", text: "hello" }] },
  ] satisfies OpenAI.ChatCompletionMessageParam[];
  const answer = await client.chat.completions.create({ model: "any", messages, seed: 3 });
  assert.equal(answer.choices[0]?.message.content, "hello world");
  assert.equal(answer.usage?.completion_tokens, 5);
  assert.equal(asked[0]?.prompt, "system: Be kind.\nuser: hello\n");
  assert.equal(asked[0]?.seed, 3);
  const stream = await client.chat.completions.create({ model: "any", messages, stream: true });
  let text = "";
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
  assert.equal(text, "hello world");
  assert.deepEqual((await client.models.list()).data[0]?.id, "speaker");
});

test("what the model has not is an error of OpenAI's client, and is tried once", async () => {
  const { client } = openAi("hello");
  const messages = [
    { role: "user", content: "hello" },
  ] satisfies OpenAI.ChatCompletionMessageParam[];
  const asked = client.chat.completions.create({ model: "any", messages, n: 2 });
  await assert.rejects(asked, (thrown) => {
    assert.ok(thrown instanceof OpenAI.BadRequestError);
    assert.match(thrown.message, /n is not known to models in a page/);
    return true;
  });
  const other = client.embeddings.create({ model: "any", input: "hello" });
  await assert.rejects(other, /POST \/v1\/embeddings is not known/);
});

test("a stream of OpenAI's client that is left stops the model", async () => {
  const { client, state } = openAi("hello ".repeat(50));
  const messages = [
    { role: "user", content: "hello" },
  ] satisfies OpenAI.ChatCompletionMessageParam[];
  const stream = await client.chat.completions.create({ model: "any", messages, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content) break;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(state().speaking, 0);
});

test("the AI SDK generates and streams with a model in the page", async () => {
  const { llm, asked } = speaker("hello 👍");
  const fetch = chatFetch(chatClient(llm, { tokenizer, template }));
  const zoo = createOpenAICompatible({ name: "kernelzoo", baseURL: URL_OF_NOTHING, fetch });
  const given = { model: zoo("speaker"), prompt: "hello", temperature: 0.5, maxOutputTokens: 9 };
  const { text, usage, finishReason } = await generateText(given);
  assert.deepEqual([text, finishReason, usage.outputTokens], ["hello 👍", "stop", 6]);
  assert.equal(asked[0]?.temperature, 0.5);
  assert.equal(asked[0]?.maxTokens, 9);
  const stream = streamText(given);
  const pieces: string[] = [];
  for await (const piece of stream.textStream) pieces.push(piece);
  assert.equal(pieces.join(""), "hello 👍");
  assert.ok(pieces.length > 1, "piece by piece");
});

test("several clients of one model wait for each other", async () => {
  const { llm, asked, state } = speaker("hello world");
  const clients = [0, 1, 2].map(() => chatClient(llm, { tokenizer, template }));
  const messages = [{ role: "user", content: "hello" }] as const;
  await Promise.all(clients.map(({ chat }) => chat.completions.create({ messages })));
  assert.deepEqual([asked.length, state().most], [3, 1]);
});

test("the types of the two packages are assignable to each other", () => {
  // The compiler is the test: none of these is called.
  const { llm } = speaker("");
  const { chat } = chatClient(llm, { tokenizer, template });
  const whole = async (params: OpenAI.ChatCompletionCreateParamsNonStreaming) => {
    const answer: OpenAI.ChatCompletion = await chat.completions.create(params);
    return answer;
  };
  const streamed = async (params: OpenAI.ChatCompletionCreateParamsStreaming) => {
    const answer: AsyncIterable<OpenAI.ChatCompletionChunk> = await chat.completions.create(params);
    return answer;
  };
  const either = (params: OpenAI.ChatCompletionCreateParams) => chat.completions.create(params);
  const history = (own: ChatCompletionMessageParam[]): OpenAI.ChatCompletionMessageParam[] => own;
  const message = (own: ChatCompletion["choices"][0]["message"]): OpenAI.ChatCompletionMessage =>
    own;
  const chunk = (own: ChatCompletionChunk): OpenAI.ChatCompletionChunk => own;
  for (const each of [whole, streamed, either, history, message, chunk]) {
    assert.equal(typeof each, "function");
  }
});
