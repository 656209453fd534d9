/** Text and conversations through the tokenizers of other packages, and a model that says what it is told. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { Detokenizer } from "../src/chat/detokenizer.js";
import {
  type ChatCompletionChunk,
  type ChatCompletionCreateParams,
  chatClient,
  generateText,
  type LoadedTokenizer,
  loadTokenizer,
  type TokenSource,
} from "../src/chat/index.js";
import { StopStrings } from "../src/chat/stop-strings.js";
import type { GenerateEnd, GenerateOptions } from "../src/language/language-model.js";
import { END, END_ID, TOKENIZER_CONFIG, TOKENIZER_JSON, TURN } from "./tokenizers.js";

const tokenizer = new Tokenizer(TOKENIZER_JSON, TOKENIZER_CONFIG);
const template = { render: (given: object) => renderer.render({ ...SPECIAL, ...given }) };
const renderer = new Template(TOKENIZER_CONFIG.chat_template);
const SPECIAL = { bos_token: TURN, eos_token: END };
const FAMILY = "hello 👩‍👩‍👧, naïve 日本";

const idsOf = (text: string): number[] => tokenizer.encode(text).ids;

interface Asked extends GenerateOptions {
  readonly prompt: readonly number[];
}

/** Says `text` token by token. */
class Speaker implements TokenSource {
  readonly name = "speaker";
  readonly stopTokens = [END_ID];
  readonly asked: Asked[] = [];
  speaking = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  async *generate(
    ids: ArrayLike<number>,
    options: GenerateOptions = {},
  ): AsyncGenerator<number, GenerateEnd, undefined> {
    this.asked.push({ ...options, prompt: Array.from(ids) });
    assert.equal(this.speaking, 0, "two texts at once");
    this.speaking += 1;
    const said = idsOf(this.#text);
    const { maxTokens = Infinity } = options;
    try {
      for (const id of said.slice(0, maxTokens)) {
        await new Promise(setImmediate);
        options.signal?.throwIfAborted();
        yield id;
      }
      return maxTokens < said.length ? "length" : "stop";
    } finally {
      this.speaking -= 1;
    }
  }

  stats(): ReturnType<TokenSource["stats"]> {
    return { reusedTokens: 3 } as ReturnType<TokenSource["stats"]>;
  }
}

test("a misspelt option of a client is refused", () => {
  const options = { tokeniser: tokenizer } as unknown as Parameters<typeof chatClient>[1];
  assert.throws(() => chatClient(new Speaker(""), options), /tokenizer may be meant/);
});

const clientOf = (llm: TokenSource) => chatClient(llm, { tokenizer, template }).chat.completions;
const HELLO = [{ role: "user", content: "hello" }] as const;

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const textOf = (chunks: readonly ChatCompletionChunk[]): string =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");

test("a character of several tokens is told when its last token is there", () => {
  const detokenizer = new Detokenizer(tokenizer);
  const told = idsOf("a👍é!").map((id) => detokenizer.push(id));
  assert.deepEqual(told, ["a", "", "", "", "👍", "", "é", "!"]);
  assert.equal(detokenizer.end(), "");
});

test("pieces make the whole text, however long it is and whatever is broken in it", () => {
  const emoji = idsOf("👍");
  const replaced = [...idsOf("x"), ...emoji.slice(0, 2), ...idsOf("y�"), ...emoji, END_ID];
  for (const ids of [idsOf(FAMILY.repeat(9)), replaced, [...idsOf("cut "), ...emoji.slice(0, 3)]]) {
    const detokenizer = new Detokenizer(tokenizer);
    const pieces = ids.map((id) => detokenizer.push(id));
    const whole = tokenizer.decode(ids, { skip_special_tokens: true });
    assert.equal(pieces.join("") + detokenizer.end(), whole);
  }
});

test("a text ends before the first string to stop at, wherever its pieces are cut", () => {
  const said = (stops: string[], pieces: string[]): string => {
    const strings = new StopStrings(stops);
    let text = "";
    for (const piece of pieces) {
      const told = strings.push(piece);
      text += told.text;
      if (told.ended) return `${text}|`;
    }
    return text + strings.end();
  };
  for (const size of [1, 2, 3, 100]) {
    const pieces = (text: string): string[] =>
      Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
        text.slice(i * size, (i + 1) * size),
      );
    assert.equal(said(["\nUser:"], pieces("one\n\nUser: two")), "one\n|");
    assert.equal(said(["bb", "abc"], pieces("aababcbb")), "aab|");
    assert.equal(said(["\nUser:"], pieces("one\nUse")), "one\nUse");
    assert.equal(said([""], pieces("one")), "one");
  }
});

test("text is generated from text and says why it ended", async () => {
  const ended = async (options: object): Promise<[string, unknown]> => {
    const pieces = generateText(new Speaker("hello world"), "hello", { tokenizer, ...options });
    let text = "";
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return [text, value];
      text += value;
    }
  };
  const end = { promptTokens: 1 };
  assert.deepEqual(await ended({}), ["hello world", { ...end, reason: "stop", tokens: 5 }]);
  assert.deepEqual(await ended({ maxTokens: 2 }), [
    "hello w",
    { ...end, reason: "length", tokens: 2 },
  ]);
  assert.deepEqual(await ended({ stop: ["wor"] }), [
    "hello ",
    { ...end, reason: "stop", tokens: 3 },
  ]);
});

test("a tokenizer is loaded from the files of a model, with its template", async (t) => {
  const { chat_template, ...config } = TOKENIZER_CONFIG;
  const named = [
    { name: "tool_use", template: "" },
    { name: "default", template: chat_template },
  ];
  const given: [object, string | null][] = [
    [TOKENIZER_CONFIG, null],
    [{ ...config, chat_template: named }, null],
    [config, chat_template],
  ];
  for (const [described, file] of given) {
    serveFiles(t, { "tokenizer.json": TOKENIZER_JSON, "tokenizer_config.json": described }, file);
    const loaded = await loadTokenizer("http://site.test/model", { Tokenizer, Template });
    assert.equal(rendered(loaded), `${TURN}user\nhello${END}\n${TURN}assistant\n`);
    t.mock.restoreAll();
  }
  serveFiles(t, { "tokenizer.json": TOKENIZER_JSON, "tokenizer_config.json": config }, null);
  const plain = await loadTokenizer("http://site.test/model/", { Tokenizer, Template });
  assert.equal(plain.template, undefined);
  const talk = chatClient(new Speaker(""), plain).chat.completions;
  await assert.rejects(talk.create({ messages: HELLO }), /no template for conversations/);
  serveFiles(t, { "tokenizer.json": TOKENIZER_JSON }, null);
  const missing = loadTokenizer("http://site.test/model", { Tokenizer, Template });
  await assert.rejects(missing, /site.test\/model\/ has no tokenizer_config.json. Copy it there/);
  t.mock.method(globalThis, "fetch", async () => new Response("<!doctype html>"));
  const page = loadTokenizer("http://site.test/model", { Tokenizer, Template });
  const told = /site.test\/model\/tokenizer.json answered with a page of HTML: .* Copy it there/;
  await assert.rejects(page, told);
});

function serveFiles(t: TestContext, files: Record<string, object>, template: string | null): void {
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    const name = url.pathname.replace("/model/", "");
    if (name === "chat_template.jinja" && template !== null) return new Response(template);
    const found = files[name];
    return found ? Response.json(found) : new Response(null, { status: 404 });
  });
}

const rendered = ({ template: loaded }: LoadedTokenizer): string | undefined =>
  loaded?.render({ messages: HELLO, add_generation_prompt: true });

test("a completion has the shape of OpenAI's", async () => {
  const llm = new Speaker("hello world");
  const { id, created, ...rest } = await clientOf(llm).create({ messages: HELLO });
  assert.match(id, /^chatcmpl-[0-9a-f]{24}$/);
  assert.ok(Math.abs(created - Date.now() / 1000) < 60);
  const message = { role: "assistant", content: "hello world", refusal: null };
  const prompt = idsOf(`${TURN}user\nhello${END}\n${TURN}assistant\n`);
  assert.deepEqual(rest, {
    object: "chat.completion",
    model: "speaker",
    choices: [{ index: 0, message, finish_reason: "stop", logprobs: null }],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: 5,
      total_tokens: prompt.length + 5,
      prompt_tokens_details: { cached_tokens: 3 },
    },
  });
  const { seed, ...asked } = llm.asked[0] as Asked;
  assert.equal(typeof seed, "number");
  assert.deepEqual(asked, { prompt, temperature: 1, topP: 1, topK: 0 });
});

test("an answer that ends at once is an empty one", async () => {
  const { choices, usage } = await clientOf(new Speaker("")).create({ messages: HELLO });
  assert.deepEqual([choices[0]?.message.content, choices[0]?.finish_reason], ["", "stop"]);
  assert.equal(usage?.completion_tokens, 0);
});

test("without a template the tokenizer's own renders the conversation", async () => {
  const own = {
    encode: tokenizer.encode.bind(tokenizer),
    decode: tokenizer.decode.bind(tokenizer),
    apply_chat_template: (messages: object[], options: object) => {
      assert.deepEqual(options, { tokenize: false, add_generation_prompt: true });
      return template.render({ messages, ...options });
    },
  };
  const [llm, usual] = [new Speaker("hello world"), new Speaker("hello world")];
  const asked = { messages: [...HELLO], max_tokens: 3 };
  const { usage } = await chatClient(llm, { tokenizer: own }).chat.completions.create(asked);
  assert.ok((usage?.prompt_tokens ?? 0) > 1);
  assert.deepEqual(usage, (await clientOf(usual).create(asked)).usage);
  assert.deepEqual(llm.asked[0]?.prompt, usual.asked[0]?.prompt);
});

test("what is asked for reaches the model, and parts of a message are one text", async () => {
  const llm = new Speaker("hello world");
  const content = [
    { type: "text", text: "hel" },
    { type: "text", text: "lo" },
  ] as const;
  const params: ChatCompletionCreateParams & { stream?: null } = {
    messages: [{ role: "user", content }],
    model: "other",
    max_completion_tokens: 3,
    temperature: 0,
    top_p: 0.5,
    top_k: 4,
    seed: 7,
    stop: "never",
  };
  const harmless = { tools: [], response_format: { type: "text" } };
  const answer = await clientOf(llm).create({ ...params, ...harmless });
  const prompt = idsOf(`${TURN}user\nhello${END}\n${TURN}assistant\n`);
  const asked = { prompt, maxTokens: 3, temperature: 0, topP: 0.5, topK: 4, seed: 7 };
  assert.deepEqual(llm.asked, [asked]);
  assert.equal(answer.choices[0]?.finish_reason, "length");
  assert.equal(answer.model, "other");
});

test("a stream's chunks have a role, pieces, an end, and the usage where it is asked for", async () => {
  const stream = await clientOf(new Speaker("hello 👍")).create({
    messages: HELLO,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await collected(stream);
  assert.equal(new Set(chunks.map(({ id, object }) => `${id} ${object}`)).size, 1);
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
  const pieces = ["hello", " ", "👍"].map((piece) => ({ content: piece }));
  assert.deepEqual(deltas, [{ role: "assistant", content: "" }, ...pieces, {}]);
  const reasons = chunks.map(({ choices }) => choices[0]?.finish_reason);
  assert.deepEqual(reasons, [null, null, null, null, "stop", undefined]);
  assert.equal(chunks.at(-1)?.usage?.completion_tokens, 6);
  assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null));
});

test("a stream that is read no further, or aborted, stops the model at once", async () => {
  const llm = new Speaker("hello hello hello");
  const talk = clientOf(llm);
  for await (const { choices } of await talk.create({ messages: HELLO, stream: true })) {
    if (choices[0]?.delta.content === "hello") break;
  }
  assert.equal(llm.speaking, 0);
  const stream = await talk.create({ messages: HELLO, stream: true });
  const heard: ChatCompletionChunk[] = [];
  for await (const chunk of stream) {
    heard.push(chunk);
    if (textOf(heard) === "hello") stream.controller.abort();
  }
  assert.deepEqual([textOf(heard), llm.speaking], ["hello", 0]);
  const stop = new AbortController();
  const whole = talk.create({ messages: HELLO }, { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(whole, /enough/);
  assert.equal(llm.speaking, 0);
});

test("requests follow each other, and one that gives up while it waits is no one's turn", async () => {
  const llm = new Speaker("hello");
  const talk = clientOf(llm);
  const stop = new AbortController();
  const asked = [
    talk.create({ messages: HELLO }),
    talk.create({ messages: HELLO }, { signal: stop.signal }),
    talk.create({ messages: HELLO }),
  ];
  stop.abort(new Error("not me"));
  const found = await Promise.allSettled(asked);
  assert.deepEqual(
    found.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.equal(llm.asked.length, 2);
});

test("what cannot be had is refused by its name, unless it asks for nothing", async () => {
  const talk = clientOf(new Speaker("hello"));
  const refusals: [object, RegExp][] = [
    [
      { tools: [{ type: "function" }] },
      /^tools is not known .*, which call no tools; leave it out/,
    ],
    [{ tool_choice: "required" }, /^tool_choice is not known/],
    [{ n: 2 }, /^n is not known .* one answer to a request/],
    [{ response_format: { type: "json_object" } }, /^response_format is not known/],
    [
      { response_format: { type: "json_schema", json_schema: {} } },
      /^response_format is not known/,
    ],
    [{ logprobs: true }, /^logprobs is not known/],
    [{ top_logprobs: 2 }, /^top_logprobs is not known/],
    [{ audio: { voice: "alloy" } }, /^audio is not known/],
    [{ modalities: ["text", "audio"] }, /^modalities is not known/],
    [{ prediction: { type: "content", content: "" } }, /^prediction is not known/],
    [{ service_tier: "flex" }, /^service_tier is not known/],
    [{ store: true }, /^store is not known/],
    [{ verbosity: "low" }, /^verbosity is not known/],
    [{ web_search_options: { user_location: null } }, /^web_search_options is not known/],
    [
      { repetition_penality: 1.3 },
      /^repetition_penality is not known .*; repetition_penalty may be/,
    ],
    [{ maxTokens: 8 }, /^maxTokens is not known .*; max_tokens may be meant/],
    [{ beam_width: 4 }, /^beam_width is not known .*; leave it out/],
  ];
  for (const [params, told] of refusals) await assertRefused(talk, params, told);
  const fine = {
    ...{ frequency_penalty: 0, logit_bias: {}, n: 1, tool_choice: "none", tools: [], store: false },
    ...{
      modalities: ["text"],
      response_format: { type: "text" },
      user: "me",
      metadata: { a: "b" },
    },
    ...{ logprobs: null, seed: undefined, parallel_tool_calls: true, service_tier: "auto" },
  } as const;
  assert.equal((await talk.create({ messages: HELLO, ...fine })).object, "chat.completion");
  const options = { timeout: 5 } as object;
  await assert.rejects(
    talk.create({ messages: HELLO }, options),
    /timeout is not known to the opti/,
  );
});

async function assertRefused(
  talk: ReturnType<typeof clientOf>,
  params: object,
  told: RegExp,
): Promise<void> {
  await assert.rejects(talk.create({ messages: HELLO, ...params }), (thrown) => {
    assert.ok(thrown instanceof TypeError, String(thrown));
    assert.match(thrown.message, told);
    return true;
  });
}

test("a value of another type is refused with the name and what it is to be", async () => {
  const talk = clientOf(new Speaker("hello"));
  const said = (content: unknown) => ({ messages: [{ role: "user", content }] });
  const refusals: [object, RegExp][] = [
    [{ max_completion_tokens: "8" }, /^max_completion_tokens is to be a whole number .*; "8" was/],
    [{ max_tokens: 1.5 }, /^max_tokens is to be a whole number of at least 1; 1.5 was given/],
    [{ max_tokens: 0 }, /^max_tokens is to be/],
    [{ temperature: "1" }, /^temperature is to be a number of 0 or more; "1" was given/],
    [{ temperature: Number.NaN }, /^temperature is to be/],
    [{ top_p: 2 }, /^top_p is to be a number from 0 to 1; 2 was given/],
    [{ top_k: -1 }, /^top_k is to be a whole number of at least 0/],
    [{ seed: "7" }, /^seed is to be a whole number; "7" was given/],
    [{ stop: { a: 1 } }, /^stop is to be a string, the number of a token, or an array of them/],
    [{ stop: ["a", null] }, /^stop is to be/],
    [{ stop_token_ids: 7 }, /^stop_token_ids is to be an array/],
    [{ frequency_penalty: 3 }, /^frequency_penalty is to be a number from -2 to 2/],
    [{ presence_penalty: "1" }, /^presence_penalty is to be/],
    [{ repetition_penalty: 0 }, /^repetition_penalty is to be a number above 0/],
    [{ min_p: -0.1 }, /^min_p is to be a number from 0 to 1/],
    [{ logit_bias: { hello: 1 } }, /^logit_bias is to be an object of numbers from -100 to 100/],
    [{ logit_bias: { 5: "1" } }, /^logit_bias is to be/],
    [{ logit_bias: { 5: 101 } }, /^logit_bias is to be/],
    [{ logit_bias: [1] }, /^logit_bias is to be/],
    [{ stream: "yes" }, /^stream is to be a boolean; "yes" was given/],
    [{ stream_options: { include_usage: 1 } }, /^stream_options.include_usage is to be a boolean/],
    [{ stream_options: { includeUsage: true } }, /^includeUsage is not known to stream_options/],
    [{ chat_template_kwargs: "x" }, /^chat_template_kwargs is to be an object/],
    [{ messages: [] }, /^messages is to be an array of one message at least; \[\] was given/],
    [{ messages: "hello" }, /^messages is to be an array/],
    [{ messages: undefined }, /^messages is to be an array .*; undefined was given/],
    [{ messages: ["hello"] }, /^messages\[0\] is to be an object; "hello" was given/],
    [{ messages: [{ role: "tool", content: "" }] }, /^messages\[0\].role is to be one of system/],
    [said(null), /^messages\[0\].content is to be a string or an array of parts of text; null/],
    [said(undefined), /^messages\[0\].content is to be .*; undefined was given/],
    [said(7), /^messages\[0\].content is to be/],
    [
      said([{ type: "image_url" }]),
      /^messages\[0\].content\[0\] is a part of image_url; text alone/,
    ],
    [said(["hello"]), /^messages\[0\].content\[0\] is to be an object/],
    [said([{ type: "text" }]), /^messages\[0\].content\[0\].text is to be a string/],
    [
      { messages: [{ role: "user", content: "", name: 7 }] },
      /^messages\[0\].name is to be a string/,
    ],
    [
      { messages: [{ role: "assistant", content: "", tool_calls: [{ id: "1" }] }] },
      /^messages\[0\].tool_calls cannot be had: models in a page read text alone/,
    ],
    [{ messages: [{ role: "user", contents: "" }] }, /^contents is not known .*; content may be/],
  ];
  for (const [params, told] of refusals) await assertRefused(talk, params, told);
  await assert.rejects(
    talk.create(undefined as never),
    /^TypeError: The request is to be an object/,
  );
  const said_before = { role: "assistant", content: "hi", refusal: null, annotations: [] } as const;
  assert.equal(
    (await talk.create({ messages: [...HELLO, said_before] })).object,
    "chat.completion",
  );
});

test("penalties, biases and ids to stop at reach the model", async () => {
  const llm = new Speaker("hello world");
  await clientOf(llm).create({
    ...{ messages: HELLO, seed: 1, min_p: 0.1, repetition_penalty: 1.3, frequency_penalty: 0.5 },
    ...{ presence_penalty: -0.5, logit_bias: { 5: -100 }, stop: [7, "never"], stop_token_ids: [9] },
  });
  const { prompt: _, ...asked } = llm.asked[0] as Asked;
  assert.deepEqual(asked, {
    ...{ temperature: 1, topP: 1, topK: 0, seed: 1, minP: 0.1, repetitionPenalty: 1.3 },
    ...{ frequencyPenalty: 0.5, presencePenalty: -0.5, logitBias: { 5: -100 } },
    stop: [END_ID, 7, 9],
  });
  await clientOf(llm).create({ messages: HELLO, top_p: 0 });
  assert.deepEqual([llm.asked[1]?.topP, llm.asked[1]?.topK], [1, 1], "the likeliest");
});

test("a template is told what it reads, and what it does not read is refused", async () => {
  const text =
    "{% if enable_thinking %}think {% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
  const effort = "{{ reasoning_effort or 'medium' }} {{ messages[0].content }}";
  const loaded = (source: string) => {
    const made = new Template(source);
    return { text: source, render: (context: Record<string, unknown>) => made.render(context) };
  };
  const asked = async (source: string, params: object, known = true): Promise<string> => {
    const llm = new Speaker("");
    const { render, text: written } = loaded(source);
    const own = known ? { render, text: written } : { render };
    const talk = chatClient(llm, { tokenizer, template: own }).chat.completions;
    await talk.create({ messages: HELLO, ...params });
    return tokenizer.decode([...(llm.asked[0]?.prompt ?? [])]);
  };
  const thinking = { chat_template_kwargs: { enable_thinking: true } };
  assert.equal(await asked(text, thinking), "think hello");
  assert.equal(await asked(text, {}), "hello");
  assert.equal(await asked(text, { chat_template_kwargs: { other: 1 } }, false), "hello");
  const unread = asked(text, { chat_template_kwargs: { other: 1 } });
  await assert.rejects(
    unread,
    /^TypeError: chat_template_kwargs.other is not read by the template/,
  );
  const own = asked(text, { chat_template_kwargs: { messages: [] } });
  await assert.rejects(own, /^TypeError: chat_template_kwargs.messages cannot be given/);
  assert.equal(await asked(effort, { reasoning_effort: "high" }), "high hello");
  assert.equal(await asked(effort, { reasoning_effort: "medium" }, false), "medium hello");
  const unknown = asked(text, { reasoning_effort: "high" });
  await assert.rejects(unknown, /^TypeError: reasoning_effort is not read by the template/);
});

test("a page of HTML is no file of a tokenizer", async (t) => {
  const { chat_template: _, ...config } = TOKENIZER_CONFIG;
  const files: Record<string, object> = {
    "tokenizer.json": TOKENIZER_JSON,
    "tokenizer_config.json": config,
  };
  const answering = (page: () => Response): void => {
    t.mock.method(globalThis, "fetch", async (url: URL) => {
      const found = files[url.pathname.replace("/model/", "")];
      return found ? Response.json(found) : page();
    });
  };
  const load = (options = {}) =>
    loadTokenizer("http://site.test/model", { Tokenizer, Template }, options);
  await assert.rejects(load({ conversation: false }), /^TypeError: .*conversations may be meant/);
  const type = { headers: { "Content-Type": "text/html; charset=utf-8" } };
  for (const page of [
    () => new Response("\n<!doctype html><title>App</title>"),
    () => new Response("<HTML lang='en'>"),
    () => new Response("Sign in to this network.", type),
  ]) {
    answering(page);
    await assert.rejects(
      load(),
      /chat_template.jinja answered with a page of HTML: .* Copy the model/,
    );
    assert.equal((await load({ conversations: false })).template, undefined);
  }
  files["tokenizer_config.json"] = { ...config, chat_template: "<!DOCTYPE html><p>" };
  await assert.rejects(load(), /The template of http:\/\/site.test\/model\/ is a page of HTML/);
});
