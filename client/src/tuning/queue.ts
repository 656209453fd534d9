/** The gateway's queue: candidates of a model's workloads, line by line as they are compiled. */
import { sentence } from "../engine/error.js";
import type { KernelWire } from "../wire/types.js";

export interface Candidate {
  readonly kernel: KernelWire;
  /** Time over that of the default kernel, by the cost model. */
  readonly expected: number | null;
}

export interface Batch {
  readonly workload: string;
  readonly candidates: readonly Candidate[];
  readonly cursor: string;
}

interface End {
  readonly end: "settled" | "complete" | "waited" | "busy";
  readonly retry_s: number;
  readonly cursor: string;
}

type Line = Batch | End | { readonly waiting: number };

export interface QueuePorts {
  readonly take: (batch: Batch) => void;
  /** Whether all candidates are asked for again and again, as others measure them meanwhile. */
  readonly again: boolean;
  /** Called before each request. */
  readonly asks: (url: URL) => void;
  /** Called before each wait that a fault causes. */
  readonly waiting: (message: string) => void;
  readonly sleep: (ms: number) => Promise<void>;
}

const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;
/** How long a request waits that is made again and again, as the gateway takes it. */
const AGAIN_S = "4";
const TRY_LATER = [429, 503];

async function* linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Line, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as Line;
  }
}

/** Why the zoo has no queue for this model. */
class NoQueue extends Error {}

/** One stream, to its end; undefined where it was cut. */
async function stream(
  url: URL,
  ports: QueuePorts,
  seen: (cursor: string) => void,
): Promise<End | undefined> {
  ports.asks(url);
  const response = await fetch(url);
  const { status, body } = response;
  if (TRY_LATER.includes(status)) {
    const retry_s = Number(response.headers.get("Retry-After") ?? 0);
    return { end: "busy", retry_s, cursor: url.searchParams.get("after") ?? "" };
  }
  if (!response.ok || body === null) throw new NoQueue(`The zoo answers ${status}.`);
  for await (const line of linesOf(body)) {
    if ("cursor" in line) seen(line.cursor);
    if ("end" in line) return line;
    if ("workload" in line) ports.take(line);
  }
  return undefined;
}

/** Follows the queue until nothing more comes; answers why. Never rejects. */
export async function follow(address: string, ports: QueuePorts): Promise<string> {
  let after = "";
  let waitMs = FIRST_WAIT_MS;
  const seen = (cursor: string): void => {
    after = cursor;
    waitMs = FIRST_WAIT_MS;
  };
  for (;;) {
    const url = new URL(address);
    if (ports.again) url.searchParams.set("wait_s", AGAIN_S);
    else if (after !== "") url.searchParams.set("after", after);
    let retryMs = 0;
    try {
      const end = await stream(url, ports, seen);
      if (end?.end === "settled") return "All kernels of this model are settled.";
      if (end?.end === "complete" && !ports.again) return "There are no more candidates.";
      retryMs = 1000 * (end?.retry_s ?? 0);
    } catch (thrown) {
      if (thrown instanceof NoQueue) return thrown.message;
      ports.waiting(`The zoo does not answer: ${sentence(thrown)}`);
    }
    await ports.sleep(Math.max(retryMs, waitMs));
    waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
  }
}
