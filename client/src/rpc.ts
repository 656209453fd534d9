/**
 * Typed messages between a page and its workers, and between workers. A message has a `type`, which
 * says who handles it at the other end.
 */

interface Message {
  readonly type: string;
}

/** A worker as whoever has started it sees it. */
export interface Remote<To extends Message, From extends Message> {
  postMessage(message: To, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<From>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  terminate(): void;
}

/** A worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  readonly location: { readonly href: string };
  readonly crossOriginIsolated: boolean;
  postMessage(message: Message, transfer?: Transferable[]): void;
  addEventListener(type: "message", heard: (event: { readonly data: Message }) => void): void;
  close(): void;
}

export const workerScope = globalThis as unknown as WorkerScope;

/** The functions that handle messages, by the types of these. */
export type Handlers<To extends Message> = {
  readonly [Type in To["type"]]: (message: Extract<To, { readonly type: Type }>) => unknown;
};

/** Does what `handlers` say with a message; nothing with one of another type. */
export function handle<To extends Message>(handlers: Handlers<To>, message: To): void {
  const known = handlers as unknown as Partial<Record<string, (message: To) => unknown>>;
  known[message.type]?.(message);
}

/** Handles messages to this worker from now on. Others may handle those of other types. */
export function serveMessages<To extends Message>(handlers: Handlers<To>): void {
  workerScope.addEventListener("message", ({ data }) => handle(handlers, data as To));
}

/** Answers whoever has started this worker. */
export const poster =
  <From extends Message>() =>
  (message: From, transfer?: Transferable[]): void =>
    workerScope.postMessage(message, transfer);
