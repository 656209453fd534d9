/**
 * A conversation with a language model that runs in this page, in a worker of the SDK's.
 *
 * `?zoo=` names the zoo, `?model=` the model there or the address of a file that has one, and
 * `?tokenizer=` the folder of its tokenizer, the model's name beside this page unless told.
 */
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { KernelZoo } from "kernelzoo";
import { type ChatClient, chatClient, loadTokenizer } from "kernelzoo/chat";
import { keepHistory, type Message, readHistory } from "./history.js";
import {
  Bubble,
  byId,
  figuresOf,
  showError,
  showProgress,
  showStatus,
  tellWhenSlow,
} from "./view.js";

const parameters = new URLSearchParams(location.search);
const zooUrl = parameters.get("zoo") ?? "http://127.0.0.1:8787";
const name = parameters.get("model") ?? "smollm";
const tokenizerUrl = parameters.get("tokenizer") ?? `${name}/`;

const form = byId<HTMLFormElement>("form");
const text = byId<HTMLTextAreaElement>("text");
const [send, stop, anew] = ["send", "stop", "anew"].map((id) => byId<HTMLButtonElement>(id)) as [
  HTMLButtonElement,
  HTMLButtonElement,
  HTMLButtonElement,
];
const numberOf = (id: string): number => byId<HTMLInputElement>(id).valueAsNumber;

let messages = readHistory();
let answering: AbortController | null = null;

async function opened(): Promise<ChatClient> {
  tellWhenSlow(zooUrl);
  const zoo = await KernelZoo.open(zooUrl);
  const [llm, tokenizer] = await Promise.all([
    zoo.languageModel(name, {
      onProgress: ({ phase, loaded, total }) => showProgress(phase, loaded, total),
    }),
    loadTokenizer(tokenizerUrl, { Tokenizer, Template }),
  ]);
  showStatus(`${llm.name} is ready: ${llm.contextLength} tokens of context.`);
  byId("progress").hidden = true;
  return chatClient(llm, tokenizer);
}

/** Streams the answer into a bubble; what was said when it was stopped is its end. */
async function answered({ chat }: ChatClient, signal: AbortSignal): Promise<Message> {
  const bubble = new Bubble({ role: "assistant", content: "" });
  bubble.busy = true;
  let content = "";
  try {
    const start = performance.now();
    let first = 0;
    const chunks = await chat.completions.create(
      {
        messages,
        temperature: numberOf("temperature"),
        max_tokens: numberOf("most"),
        stream: true,
        stream_options: { include_usage: true },
      },
      { signal },
    );
    for await (const { choices, usage } of chunks) {
      const piece = choices[0]?.delta.content ?? "";
      if (piece !== "" && first === 0) first = performance.now() - start;
      content += piece;
      bubble.add(piece);
      if (usage) bubble.figures = figuresOf(usage, first, performance.now() - start);
    }
  } catch (thrown) {
    if (!signal.aborted) {
      bubble.remove();
      throw thrown;
    }
    bubble.figures = "Stopped.";
  } finally {
    bubble.busy = false;
  }
  return { role: "assistant", content };
}

async function ask(client: ChatClient, content: string): Promise<void> {
  const before = messages;
  const question = new Bubble({ role: "user", content });
  messages = [...messages, { role: "user", content }];
  answering = new AbortController();
  showAnswering(true);
  try {
    messages = [...messages, await answered(client, answering.signal)];
    keepHistory(messages);
  } catch (thrown) {
    // The question goes back to where it can be changed.
    question.remove();
    messages = before;
    text.value = content;
    showError((thrown as Error).message);
  } finally {
    answering = null;
    showAnswering(false);
    text.focus();
  }
}

function showAnswering(busy: boolean): void {
  send.hidden = anew.disabled = busy;
  stop.hidden = !busy;
  if (busy) showError(null);
}

const halt = (): void => answering?.abort(new Error("stopped"));

function listen(client: ChatClient): void {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const content = text.value.trim();
    if (content === "" || answering !== null) return;
    text.value = "";
    void ask(client, content);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  send.disabled = false;
}

stop.addEventListener("click", halt);
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") halt();
});
anew.addEventListener("click", () => {
  messages = [];
  keepHistory(messages);
  byId("log").replaceChildren();
  showError(null);
  text.focus();
});
for (const message of messages) new Bubble(message);
opened().then(listen, (thrown: Error) => {
  showStatus("");
  byId("progress").hidden = true;
  showError(thrown.message);
});
