/** Shows the messages, the progress and the errors of a chat in the page. */
import type { CompletionUsage } from "kernelzoo/chat";
import type { Message } from "./history.js";

export function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const NAMES = { user: "You", assistant: "Model" } as const;

/** One message in the log; what it says may grow. */
export class Bubble {
  readonly #article = document.createElement("article");
  readonly #text = document.createElement("p");
  readonly #figures = document.createElement("p");

  constructor({ role, content }: Message) {
    const name = document.createElement("h2");
    name.textContent = NAMES[role];
    this.#article.className = role;
    this.#text.textContent = content;
    this.#figures.className = "quiet";
    this.#article.append(name, this.#text, this.#figures);
    byId("log").append(this.#article);
    this.#article.scrollIntoView({ block: "nearest" });
  }

  /** Readers of a screen wait for the end of what is busy. */
  set busy(busy: boolean) {
    this.#article.ariaBusy = `${busy}`;
  }

  add(piece: string): void {
    this.#text.append(piece);
    this.#article.scrollIntoView({ block: "nearest" });
  }

  set figures(text: string) {
    this.#figures.textContent = text;
  }

  remove(): void {
    this.#article.remove();
  }
}

export function showStatus(text: string): void {
  byId("status").textContent = text;
}

const SLOW_MS = 5000;

/** Says that `url` is slow, where after some seconds nothing else has been said. */
export function tellWhenSlow(url: string): void {
  const first = byId("status").textContent;
  const { host } = new URL(url, location.href);
  setTimeout(() => {
    if (byId("status").textContent !== first) return;
    showStatus(`Still waiting: ${host} is slow to answer…`);
  }, SLOW_MS);
}

export function showError(text: string | null): void {
  byId("error").textContent = text;
  byId("error").hidden = text === null;
}

const PHASES = {
  compile: "Kernels are compiled",
  plan: "Plan",
  kernels: "Kernels",
  weights: "Weights",
  check: "Check",
} as const;

/** `loaded` of `total` are bytes of kernels and of weights. */
export function showProgress(phase: keyof typeof PHASES, loaded: number, total: number): void {
  const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
  const sizes = phase === "kernels" || phase === "weights";
  const done = sizes ? `: ${mb(loaded)} of ${mb(total)} MB` : "";
  showStatus(`${PHASES[phase]}${done}`);
  byId<HTMLProgressElement>("progress").value = total > 0 ? loaded / total : 1;
}

export function figuresOf(usage: CompletionUsage, firstMs: number, wholeMs: number): string {
  const { completion_tokens: tokens, prompt_tokens, prompt_tokens_details } = usage;
  const rate =
    tokens > 1 ? `, ${((1000 * (tokens - 1)) / (wholeMs - firstMs)).toFixed(1)} a second` : "";
  const cached = prompt_tokens_details.cached_tokens;
  return (
    `${tokens} tokens${rate}; the first after ${firstMs.toFixed(0)} ms; ` +
    `${cached} of ${prompt_tokens} tokens before it were in the cache`
  );
}
