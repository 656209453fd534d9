/**
 * One request: its answer, and how it is repeated while the gateway is unavailable.
 */
import { unanswered } from "../engine/error.js";
import { gaveUp } from "./deadline.js";

/** The answer to one request: a value, nothing, or a refusal with its reason. */
export type Answer<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** The gateway has nothing now (204). */
  | { readonly kind: "empty" }
  /** Something answered that asking again does not change; `byGateway` where it was a gateway. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly detail: string;
      readonly byGateway: boolean;
    }
  /** No answer, or one that may change: 429 and 5xx. `retryAfterMs` where the gateway says. */
  | { readonly kind: "unavailable"; readonly detail: string; readonly retryAfterMs: number };

const TRY_LATER = 429;
const SERVER_FAULT = 500;

/** The sentence of a gateway; null where something else answers at its address. */
async function problemDetail(response: Response): Promise<string | null> {
  const body: unknown = await response.json().catch(() => null);
  const detail = (body as { readonly detail?: unknown } | null)?.detail;
  return typeof detail === "string" ? detail : null;
}

async function read<T>(response: Response, decode: Decode<T>): Promise<Answer<T>> {
  if (response.status === 204) return { kind: "empty" };
  if (response.ok) return { kind: "ok", value: await decode(response) };
  const { status } = response;
  const said = await problemDetail(response);
  const detail = said ?? `The gateway answered ${status}.`;
  if (status !== TRY_LATER && status < SERVER_FAULT) {
    return { kind: "refused", status, detail, byGateway: said !== null };
  }
  const seconds = Number(response.headers.get("Retry-After") ?? 0);
  return { kind: "unavailable", detail, retryAfterMs: 1000 * (seconds || 0) };
}

type Decode<T> = (response: Response) => Promise<T>;

const json = async <T>(response: Response): Promise<T> => (await response.json()) as T;

/**
 * One request, of JSON unless told. A network failure is an answer too, and so is a deadline that
 * passed; an abort is thrown.
 */
export async function ask<T>(
  url: URL,
  init: RequestInit = {},
  decode: Decode<T> = json,
): Promise<Answer<T>> {
  try {
    return await read(await fetch(url, init), decode);
  } catch (cause) {
    if (gaveUp(init.signal)) throw cause;
    return { kind: "unavailable", detail: unanswered(url, cause), retryAfterMs: 0 };
  }
}

const FIRST_MS = 500;
const LONGEST_MS = 30_000;

/**
 * Wait before retry `attempt` (0 is the first): doubling from 0.5 s to 30 s, of which a random
 * half is taken off, so that agents do not return in step. `random` is in [0, 1).
 */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const longest = Math.min(FIRST_MS * 2 ** attempt, LONGEST_MS);
  return longest * (0.5 + random() / 2);
}

/** Waits; rejects with the signal's reason when it is aborted first. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** An answer that will not change by asking again. */
export type FinalAnswer<T> = Exclude<Answer<T>, { readonly kind: "unavailable" }>;

export interface RetryPorts {
  sleep(ms: number): Promise<void>;
  /** Called before each wait. */
  waiting(detail: string, retryInMs: number): void;
}

/** Asks until the gateway answers; waits as it says, or longer each time. */
export async function retried<T>(
  request: () => Promise<Answer<T>>,
  ports: RetryPorts,
): Promise<FinalAnswer<T>> {
  for (let attempt = 0; ; attempt++) {
    const answer = await request();
    if (answer.kind !== "unavailable") return answer;
    const wait = Math.max(answer.retryAfterMs, backoffMs(attempt));
    ports.waiting(answer.detail, wait);
    await ports.sleep(wait);
  }
}
