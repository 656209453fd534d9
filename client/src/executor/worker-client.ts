/** A model's worker as the page sees it. */
import type { CallTimes } from "../backend/wasm/dispatch.js";
import source from "../backend/wasm/plain-worker.js?parts";
import { KernelZooError } from "../engine/error.js";
import { workerOf } from "../engine/page-worker.js";
import type { Remote } from "../rpc.js";
import type { TargetKind } from "../wire/types.js";
import type { Stored } from "./golden-tensors.js";
import type {
  Failure,
  FromRuntime,
  Loaded,
  LoadOrder,
  Progress,
  Question,
  ToRuntime,
} from "./messages.js";
import { buffersOf } from "./transferables.js";

/** The part of a worker's interface that its client uses. */
export type RuntimeWorker = Remote<ToRuntime, FromRuntime>;

/** A worker that prepares weights beside a model's, which talks to it by `port`. */
export interface WorkerBeside {
  readonly worker: Pick<Worker, "onerror" | "terminate">;
  readonly port: MessagePort;
}

export interface Ran {
  readonly feeds: readonly Stored[];
  readonly outputs: readonly Stored[];
  readonly times: CallTimes;
}

export interface ClientRun {
  readonly signal?: AbortSignal | undefined;
  /** Each call is to be timed, at any cost. */
  readonly timed?: boolean;
  /** Arrays whose memory outputs may take. */
  readonly into?: object | undefined;
}

/** A load that was refused, with the kernels to blame. */
export class WorkerFailure extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Returns what a page is told: the failure of a worker is no error of its interface. */
export const pageError = (thrown: unknown): unknown =>
  thrown instanceof WorkerFailure
    ? new KernelZooError(thrown.failure.stage, thrown.message, thrown)
    : thrown;

interface WaitingAnswer {
  resolve(told: FromRuntime): void;
  reject(reason: unknown): void;
  readonly signal: AbortSignal | undefined;
}

const REMEDY = "A content security policy must allow worker-src blob:.";

export const spawnRuntime = (text = source): RuntimeWorker => workerOf(text, "kernelzoo model");

/**
 * Workers for a model; the first starts now, where it `may`. One that does not start is started once
 * more, and heard then.
 */
export function startWorkers(source: string | undefined, may = true) {
  let early = may ? spawnRuntime(source) : null;
  const drop = (): void => {
    early?.terminate();
    early = null;
  };
  if (early) early.onerror = drop;
  const next = (_: TargetKind, other?: string): RuntimeWorker => {
    const worker = ((other ?? source) === source && early) || spawnRuntime(other ?? source);
    if (worker === early) early = null;
    return worker;
  };
  return { next, drop };
}

/** Owns the worker. Runs follow each other in the order in which they were asked for. */
export class WorkerClient {
  /** Resolves when runs may come. */
  readonly loaded: Promise<Loaded>;
  /** Resolves when all weights are in memory and the outputs that were to be checked are right. */
  readonly complete: Promise<void>;
  readonly #worker: RuntimeWorker;
  readonly #beside: WorkerBeside | null;
  readonly #waiting = new Map<number, WaitingAnswer>();
  /** The number of the last question. */
  #asked = 0;
  #over: { readonly reason: unknown } | null = null;
  #refuse: (reason: unknown) => void = () => undefined;

  /** `loaded` and `complete` reject with WorkerFailure, or with KernelZooError where the worker does not start. */
  constructor(
    order: LoadOrder,
    progress: (progress: Progress) => void,
    worker: RuntimeWorker,
    beside: WorkerBeside | null = null,
  ) {
    this.#worker = worker;
    this.#beside = beside;
    let complete: () => void = () => undefined;
    let loaded: (loaded: Loaded) => void = () => undefined;
    const refused = new Promise<never>((_, reject) => {
      this.#refuse = reject;
    });
    this.loaded = Promise.race([refused, new Promise<Loaded>((resolve) => (loaded = resolve))]);
    this.complete = Promise.race([refused, new Promise<void>((resolve) => (complete = resolve))]);
    this.#worker.onmessage = ({ data }) => {
      if (data.type === "loaded") loaded(data.loaded);
      else if (data.type === "complete") complete();
      else if (data.type === "refused") this.#refuse(new WorkerFailure(data.failure));
      else if (data.type === "progress") progress(data.progress);
      else if (data.type !== "soon") this.#settle(data);
    };
    const stopped = ({ message }: ErrorEvent): void => {
      const text = `The model's worker stopped: ${message || "it is not loaded"}. ${REMEDY}`;
      this.end(new KernelZooError("run", text));
    };
    this.#worker.onerror = stopped;
    if (beside) beside.worker.onerror = stopped;
    // Whoever does not wait for them any more hears nothing.
    this.loaded.catch(() => undefined);
    this.complete.catch(() => undefined);
    const port = beside?.port;
    this.#worker.postMessage({ type: "load", order, beside: port }, port ? [port] : []);
  }

  /** Wakes the worker for a run that is about to be asked for. */
  soon(): void {
    this.#worker.postMessage({ type: "soon" });
  }

  /** Rejects with WorkerFailure, with the reason of the end, or with that of `signal`. */
  async run(
    feeds: readonly Stored[],
    { signal, timed = false, into: spare = {} }: ClientRun = {},
  ): Promise<Ran> {
    const into = Object.values(spare as Record<string, Stored>);
    const asked = { type: "run", feeds, into, timed, stoppable: signal !== undefined } as const;
    const ran = this.#ask<"done">(asked, buffersOf([...feeds, ...into]), signal);
    const id = this.#asked;
    const abort = (): void => this.#worker.postMessage({ type: "abort", id });
    signal?.addEventListener("abort", abort);
    return ran.finally(() => signal?.removeEventListener("abort", abort));
  }

  /** Asks the worker, and resolves with its answer. Rejects with the reason of the end. */
  async ask<Type extends Question["type"]>(asked: Extract<Question, { type: Type }>) {
    return this.#ask<Type>(asked, "into" in asked ? [asked.into.buffer] : []);
  }

  /** Ends the worker, and with it the memory. What waits is rejected with `reason`. */
  end(reason: unknown): void {
    this.#over ??= { reason };
    this.#worker.terminate();
    this.#beside?.worker.terminate();
    this.#refuse(reason);
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }

  /** Throws the reason of the end, or that of `signal`. */
  #ask<Type extends "done" | Question["type"]>(
    asked: Question | Omit<Extract<ToRuntime, { type: "run" }>, "id">,
    transfer: Transferable[],
    signal?: AbortSignal,
  ) {
    if (this.#over !== null) throw this.#over.reason;
    signal?.throwIfAborted();
    const id = ++this.#asked;
    this.#worker.postMessage({ ...asked, id }, transfer);
    return new Promise<Extract<FromRuntime, { type: Type }>>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as WaitingAnswer["resolve"], reject, signal });
    });
  }

  #settle(
    data: Exclude<FromRuntime, { type: "loaded" | "complete" | "refused" | "progress" | "soon" }>,
  ): void {
    const waiting = this.#waiting.get(data.id);
    this.#waiting.delete(data.id);
    if (data.type === "aborted") waiting?.reject(waiting.signal?.reason);
    else if (data.type === "failed") waiting?.reject(new WorkerFailure(data.failure));
    else waiting?.resolve(data);
  }
}
