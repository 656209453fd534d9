/**
 * Opens a model until it works: kernels that are found wrong are told to the zoo and replaced by
 * their defaults.
 */
import { KernelZooError } from "../engine/error.js";
import type { Check, Loaded, LoadOrder, Progress } from "../executor/messages.js";
import {
  type RuntimeWorker,
  type WorkerBeside,
  WorkerClient,
  WorkerFailure,
} from "../executor/worker-client.js";
import type { GraphOrder } from "../weights/cached-model.js";
import { addressOf, type ModelAnswer, targetOf } from "../wire/model-answer.js";
import type { TargetKind } from "../wire/types.js";
import { WORKERS, type WorkerText } from "../workers.js";
import type { Host } from "./host.js";
import { release, reserve } from "./memory-budget.js";
import type { Fallbacks } from "./planned-calls.js";
import type { Answered } from "./request.js";

/** Options of all that loads a model. */
export interface LoadOptions {
  /**
   * Called with numbers while the zoo compiles kernels of a model that is new to it, while kernels and
   * weights arrive, and while the model is checked; again when a language model opens a larger context.
   */
  readonly onProgress?: (progress: Progress) => void;
  /** Stops the load; it rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * Bytes that all models of the page may take together; half of the device's memory unless told,
   * 2 GiB where that is unknown.
   */
  readonly memoryBytes?: number;
}

export interface OpenOrder {
  /**
   * Says whether golden outputs are compared at the first load on a device, and whether before the
   * model runs.
   */
  readonly check: Check;
  /**
   * The bytes that all models of the page may take together; a part of the device's memory unless
   * told.
   */
  readonly memoryBytes: number | undefined;
  /** The graph in which this device keeps the weights; null where it does not. */
  readonly graph: GraphOrder | null;
  readonly progress: (progress: Progress) => void;
  readonly signal: AbortSignal | undefined;
  /** Starts a worker that prepares weights beside the model's; null where none is wanted. */
  readonly beside?: ((order: LoadOrder, url: URL) => WorkerBeside | null) | undefined;
  /** The role of the model's worker; it is an executor unless told. */
  readonly role?: "executor" | "decoder";
  /** The text of the worker, where it is not the one of its role. */
  readonly source?: string;
}

/** Starts a worker for a target, of a text; of the plain one for WebAssembly unless told. */
export type Spawn = (target: TargetKind, source?: string) => RuntimeWorker;

export interface Opened {
  readonly session: WorkerClient;
  readonly loaded: Loaded;
  readonly fallbacks: Fallbacks;
}

/** Owns what a model holds of the page: its session and its part of the memory. */
export class Opener {
  readonly host: Host;
  readonly #order: OpenOrder;
  readonly #spawn: Spawn;
  answered: Answered;
  #session: WorkerClient | null = null;
  #closed: { readonly reason: unknown } | null = null;

  constructor(host: Host, answered: Answered, order: OpenOrder, spawn: Spawn) {
    this.host = host;
    this.answered = answered;
    this.#order = order;
    this.#spawn = spawn;
  }

  get answer(): ModelAnswer {
    return this.answered.answer;
  }

  /** An address in the answer. */
  located(url: string): URL {
    return addressOf(url, this.answered.origin);
  }

  /**
   * The target that the model runs on, and the reason why it is not what was asked for; null where
   * it is.
   */
  get target(): { readonly target: TargetKind; readonly targetReason: string | null } {
    const target = targetOf(this.answer);
    return { target, targetReason: this.answered.reason ?? null };
  }

  /** Throws KernelZooError, or the reason of the signal. */
  async open(): Promise<Opened> {
    try {
      await this.#reservePlan(this.answer);
      return await this.#opened(this.#failedBefore());
    } catch (thrown) {
      release(this);
      this.#freeWeights();
      throw thrown;
    }
  }

  /** Opens the model anew, without the kernels that are to blame. Throws KernelZooError. */
  async reopen({ session, fallbacks }: Opened, refused: WorkerFailure): Promise<Opened> {
    session.end(refused);
    return this.#opened(await this.#mended(fallbacks, refused));
  }

  /**
   * Opens another plan of the model in the place of one, which stays where the budget has no room for
   * the other. Where that fails otherwise, runs of the one are refused, and `open` opens it again.
   */
  async change({ session }: Opened, answered: Answered): Promise<Opened> {
    await this.#reservePlan(answered.answer);
    session.end(new WorkerFailure({ stage: "run", message: "Another plan runs.", fault: null }));
    const before = this.answered;
    this.answered = answered;
    try {
      return await this.open();
    } catch (thrown) {
      this.answered = before;
      throw thrown;
    }
  }

  close(reason: unknown): void {
    this.#closed = { reason };
    this.#session?.end(reason);
    release(this);
  }

  async #opened(first: Fallbacks): Promise<Opened> {
    for (let fallbacks = first; ; ) {
      const session = await this.#started(fallbacks);
      try {
        const loaded = await session.loaded;
        await this.#reserve(loaded.memoryBytes);
        this.#completed(session, fallbacks);
        return { session, loaded, fallbacks };
      } catch (thrown) {
        session.end(thrown);
        if (!(thrown instanceof WorkerFailure)) throw thrown;
        fallbacks = await this.#mended(fallbacks, thrown);
      }
    }
  }

  /** Until it is complete, the signal ends it; then what was compared is noted as right. */
  async #completed(session: WorkerClient, fallbacks: Fallbacks): Promise<void> {
    try {
      await session.complete;
      this.#noteRight(fallbacks);
    } catch {
      // The next run rejects with it.
    } finally {
      this.#order.signal?.removeEventListener("abort", this.#abort);
      this.#freeWeights();
    }
  }

  /** Gives back a file of weights that the page gave: what is opened again reads the zoo's. */
  #freeWeights(): void {
    const { served: answer, ...others } = this.answered;
    if (answer === undefined) return;
    URL.revokeObjectURL(this.answer.weights.url);
    this.answered = { ...others, answer };
  }

  readonly #abort = (): void => this.#session?.end(this.#order.signal?.reason);

  async #started(fallbacks: Fallbacks): Promise<WorkerClient> {
    const { signal, progress, check } = this.#order;
    const { notes, threads } = this.host;
    const source = this.#order.source ?? (await this.#source());
    signal?.throwIfAborted();
    if (this.#closed !== null) throw this.#closed.reason;
    const order: LoadOrder = {
      answer: this.answer,
      origin: this.answered.origin,
      threads: threads.size,
      check: notes.read(this.#note) !== this.#right(fallbacks) && check,
      graph: this.#order.graph,
      replaced: [...fallbacks.keys()],
    };
    const { target } = this.target;
    const worker = this.#spawn(target, source);
    const beside =
      target === "wasm" && this.#order.beside?.(order, this.located(this.answer.weights.url));
    this.#session = new WorkerClient(order, progress, worker, beside || null);
    signal?.addEventListener("abort", this.#abort);
    return this.#session;
  }

  /** The text of the worker; undefined for the plain one. */
  async #source(): Promise<string | undefined> {
    const { target } = this.target;
    if (this.#order.role === "decoder") {
      return (await WORKERS.decoder[target === "webgpu" ? target : "wasm"]()).default;
    }
    if (target === "wasm" && !this.answer.plan.needs.includes("stored")) return undefined;
    const worker: WorkerText = await WORKERS.executor[target]();
    return worker.sourceOf?.(this.answered) ?? worker.default;
  }

  /** Kernels of the model that failed in this page, each with the reason. */
  #failedBefore(): Fallbacks {
    const failed = new Map<string, string>();
    for (const [workload, { kernel, fallback }] of Object.entries(this.answer.kernels)) {
      const reason = this.host.failures.reason(kernel.sha256);
      if (reason !== null && kernel.sha256 !== fallback.sha256) failed.set(workload, reason);
    }
    return failed;
  }

  /**
   * Chooses what to try after a failure: another answer, or defaults in the places of more kernels,
   * which are returned. Throws KernelZooError where nothing is left.
   */
  async #mended(fallbacks: Fallbacks, { failure }: WorkerFailure): Promise<Fallbacks> {
    const { mended } = await import("./repair.js");
    const { target } = this.target;
    const [answered, next] = await mended(this.host, target, this.answered, fallbacks, failure);
    // A plan for another target may take more, such as one of f32 in the place of f16.
    if (next === null) {
      this.#freeWeights();
      await this.#reservePlan(answered.answer);
    }
    this.answered = answered;
    return next ?? this.#failedBefore();
  }

  /**
   * Reserves the memory that a plan takes at least, before anything of it is fetched. Throws
   * KernelZooError (memory).
   */
  #reservePlan({ plan }: ModelAnswer): Promise<void> {
    return this.#reserve(plan.memory.weights + plan.memory.activations);
  }

  async #reserve(bytes: number): Promise<void> {
    const { answer } = this;
    const lack = reserve(this, answer.name, bytes, this.#order.memoryBytes);
    if (lack === null) return;
    const { noRoom } = await import("../sdk/refusals.js");
    throw new KernelZooError("memory", noRoom(answer.name, bytes, lack, this.target.target));
  }

  get #note(): string {
    return `golden:${this.answer.plan.golden.sha256}`;
  }

  /** Names what was found right: these calls of these kernels on this class. */
  #right(fallbacks: Fallbacks): string {
    const { plan, kernels, device_class } = this.answer;
    const served = Object.values(kernels).map(({ kernel }) => kernel.sha256);
    return [device_class, plan.calls.length, served, ...fallbacks.keys()].join();
  }

  #noteRight(fallbacks: Fallbacks): void {
    if (this.#order.check) this.host.notes.write(this.#note, this.#right(fallbacks));
  }
}
