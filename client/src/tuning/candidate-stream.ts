/** The gateway's queue: candidates of a model's workloads, line by line as they are compiled. */
import { sentence } from "../engine/error.js";
import type { KernelWire } from "../wire/types.js";

export interface Candidate {
  readonly kernel: KernelWire;
  /** Time over that of the default kernel; null where nothing is known of it. */
  readonly expected: number | null;
}

/**
 * A candidate as the gateway sends it: `expected` was measured by others, `predicted` is what the
 * zoo's cost model foretells.
 */
interface QueuedCandidate extends Candidate {
  /** A zoo of an earlier version leaves it out. */
  readonly predicted?: number | null;
}

export interface CandidateBatch {
  readonly workload: string;
  readonly candidates: readonly Candidate[];
  readonly cursor: string;
}

interface QueuedBatch extends CandidateBatch {
  readonly candidates: readonly QueuedCandidate[];
}

interface End {
  readonly end: "settled" | "complete" | "waited" | "busy";
  readonly retry_s: number;
  readonly cursor: string;
}

type Line = QueuedBatch | End | { readonly waiting: number };

export interface QueuePorts {
  readonly take: (batch: CandidateBatch) => void;
  /**
   * True where all candidates are asked for again and again, as others measure them meanwhile. Then
   * nothing is expected of a candidate that nobody has measured, whatever is predicted: this page's
   * agent tries it.
   */
  readonly again: boolean;
  /** Called before each request. */
  readonly asks: (url: URL) => void;
  /** Called before each wait that a fault causes. */
  readonly waiting: (message: string) => void;
  readonly sleep: (ms: number) => Promise<void>;
}

/** The gateway says something every 10 s: after more silence its connection is dead. */
const SILENCE_MS = 30_000;
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;
/** The seconds that the gateway may let a repeated request wait, as the text of its `wait_s`. */
const AGAIN_S = "4";
const TRY_LATER = [429, 503];

/** Aborts a request of which nothing is heard for too long. */
class Silence {
  readonly #controller = new AbortController();
  readonly #limitMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
    this.heard();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    this.end();
    const tooLong = new Error(`nothing was heard for ${this.#limitMs / 1000} s`);
    this.#timer = setTimeout(() => this.#controller.abort(tooLong), this.#limitMs);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function* linesOf(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  heard: () => void,
): AsyncGenerator<Line, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let unfinished = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (unfinished + value).split("\n");
    unfinished = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as Line;
  }
}

/** Expects of a candidate that nobody has measured what the cost model predicts. */
const foretold = ({ candidates, ...batch }: QueuedBatch): CandidateBatch => ({
  ...batch,
  candidates: candidates.map(({ kernel, expected, predicted }) => ({
    kernel,
    expected: expected ?? predicted ?? null,
  })),
});

/** Says why the zoo has no queue for this model. */
class NoQueue extends Error {}

/** Reads one stream to its end and answers its last line; undefined where the stream was cut. */
async function stream(
  url: URL,
  ports: QueuePorts,
  seen: (cursor: string) => void,
  silence: Silence,
): Promise<End | undefined> {
  ports.asks(url);
  const response = await fetch(url, { signal: silence.signal });
  const { status, body } = response;
  if (TRY_LATER.includes(status)) {
    const retry_s = Number(response.headers.get("Retry-After") ?? 0);
    return { end: "busy", retry_s, cursor: url.searchParams.get("after") ?? "" };
  }
  if (!response.ok || body === null) throw new NoQueue(`The zoo answers ${status}.`);
  for await (const line of linesOf(body, () => silence.heard())) {
    if ("cursor" in line) seen(line.cursor);
    if ("end" in line) return line;
    if ("workload" in line) ports.take(ports.again ? line : foretold(line));
  }
  return undefined;
}

/** Follows the queue until nothing more comes; answers why. Never rejects. */
export async function follow(
  address: string,
  ports: QueuePorts,
  silenceMs = SILENCE_MS,
): Promise<string> {
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
    const silence = new Silence(silenceMs);
    try {
      const end = await stream(url, ports, seen, silence);
      if (end?.end === "settled") return "All kernels of this model are settled.";
      if (end?.end === "complete" && !ports.again) return "There are no more candidates.";
      retryMs = 1000 * (end?.retry_s ?? 0);
    } catch (thrown) {
      if (thrown instanceof NoQueue) return thrown.message;
      ports.waiting(`The zoo does not answer: ${sentence(thrown)}`);
    } finally {
      silence.end();
    }
    await ports.sleep(Math.max(retryMs, waitMs));
    waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
  }
}
