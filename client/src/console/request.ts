/** Requests of the console: with the operator's key for as long as the tab is open, if one was given. */
import { type Answer, ask } from "../gateway/answer.js";

const KEY = "kernelzoo.operator";

export const operatorKey = (): string => sessionStorage.getItem(KEY) ?? "";

export function keepOperatorKey(key: string): void {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

export function get<T>(path: string, signal: AbortSignal): Promise<Answer<T>> {
  const key = operatorKey();
  const headers: HeadersInit = key === "" ? {} : { "X-Kernelzoo-Operator": key };
  return ask<T>(new URL(path, location.origin), { headers, signal });
}
