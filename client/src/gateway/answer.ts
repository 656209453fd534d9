import { sentence } from "../engine/error.js";
import { gaveUp } from "./deadline.js";

/** What came of one request: a value, or who said no and why. */
export type Answer<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** 204: there is nothing now. */
  | { readonly kind: "empty" }
  /** Who is there said no: a gateway with its sentence in `detail`, or something else. */
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

/** A gateway's own sentence; null from whatever else answers there. */
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
    const detail = `No answer from ${url.origin} (${sentence(cause)}). Is the gateway running?`;
    return { kind: "unavailable", detail, retryAfterMs: 0 };
  }
}
