/**
 * Requests of the console: with the operator's key for as long as the tab is open, if one was
 * given.
 */
import { type Answer, ask } from "../gateway/request.js";

const KEY = "kernelzoo.operator";
const WRONG_KEY = 403;

export const operatorKey = (): string => sessionStorage.getItem(KEY) ?? "";

export function keepOperatorKey(key: string): void {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

export const get = <T>(path: string, signal: AbortSignal): Promise<Answer<T>> =>
  send<T>(path, { signal });

export const post = <T>(path: string, body: object): Promise<Answer<T>> =>
  send<T>(path, { method: "POST", body: JSON.stringify(body) });

export const put = <T>(path: string, body: object): Promise<Answer<T>> =>
  send<T>(path, { method: "PUT", body: JSON.stringify(body) });

/** A wrong key is forgotten, so that the next request shows what strangers see. */
async function send<T>(path: string, init: RequestInit): Promise<Answer<T>> {
  const key = operatorKey();
  const headers = new Headers(init.body ? { "Content-Type": "application/json" } : {});
  if (key !== "") headers.set("X-Kernelzoo-Operator", key);
  const answer = await ask<T>(new URL(path, location.origin), { ...init, headers });
  if (answer.kind === "refused" && answer.status === WRONG_KEY) keepOperatorKey("");
  return answer;
}
