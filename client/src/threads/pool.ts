/** The threads of one arena, which pages load whose kernels run on them. */
import type { Arena, Block } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import type { Remote } from "../rpc.js";
import {
  CONTROL_WORDS,
  chunking,
  controlView,
  type FromThread,
  failed,
  openRun,
  type ToThread,
} from "./chunks.js";
import source from "./worker.js?inlined";

/** The part of a worker's interface that a pool uses. */
export type Thread = Remote<ToThread, FromThread>;

/** Starts a thread of a text. */
export type SpawnThread = (text: string) => Thread;

/** A kernel as it is bound to each thread. `wordsOf` are the addresses for one of them. */
export interface Binding {
  readonly module: WebAssembly.Module;
  readonly extent: number;
  readonly wordsOf: (thread: number) => readonly number[];
}

/** One kernel on all threads. `run` resolves when its whole range is done. */
export interface ThreadedKernel {
  run(): Promise<void>;
  forget(): void;
}

interface WaitingRun {
  resolve(): void;
  reject(reason: KernelZooError): void;
}

const TRAPPED = "The kernel trapped in a thread; `run()` says at what.";

/** Owns the threads of one arena. Runs follow each other in the order in which they were asked. */
export class ThreadPool {
  readonly #threads: readonly Thread[];
  readonly #arena: Arena;
  readonly #block: Block;
  readonly #control: Int32Array;
  #waiting: WaitingRun | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #broken: KernelZooError | null = null;
  #kernels = 0;

  private constructor(arena: Arena, threads: readonly Thread[]) {
    this.#arena = arena;
    this.#threads = threads;
    this.#block = arena.allocate(4 * CONTROL_WORDS);
    this.#control = controlView(arena.memory, this.#block.start);
    this.#control.fill(0);
  }

  /**
   * Resolves when every thread has answered. Throws KernelZooError (run) when one does not start.
   */
  static async start(arena: Arena, count: number, spawn: SpawnThread): Promise<ThreadPool> {
    const threads: Thread[] = [];
    try {
      for (let i = 0; i < count; i++) threads.push(spawn(source));
      const pool = new ThreadPool(arena, threads);
      await Promise.all(threads.map((thread) => pool.#ready(thread)));
      return pool;
    } catch (cause) {
      for (const thread of threads) thread.terminate();
      if (cause instanceof KernelZooError) throw cause;
      throw new KernelZooError("run", "This page may not start workers.", cause);
    }
  }

  get size(): number {
    return this.#threads.length;
  }

  bind({ module, extent, wordsOf }: Binding): ThreadedKernel {
    const kernel = ++this.#kernels;
    const chunks = chunking(extent, this.size);
    for (const [i, thread] of this.#threads.entries()) {
      thread.postMessage({ type: "bind", kernel, module, words: wordsOf(i), chunks });
    }
    return {
      run: () => (chunks.count === 0 ? Promise.resolve() : this.#enqueue(kernel)),
      forget: () => this.#post({ type: "forget", kernel }),
    };
  }

  /** Ends the threads; a run that is under way is rejected. */
  dispose(): void {
    if (this.#broken === null) this.#arena.free(this.#block);
    this.#stop("The threads were disposed of. Open the zoo again.");
  }

  #ready(thread: Thread): Promise<void> {
    return new Promise((resolve, reject) => {
      thread.onmessage = ({ data }) => (data.type === "ready" ? resolve() : this.#settle());
      thread.onerror = ({ message }) => {
        const text = `A thread stopped: ${message || "it could not be loaded"}.`;
        this.#stop(`${text} Open the zoo again.`);
        reject(new KernelZooError("run", text));
      };
      thread.postMessage({
        type: "start",
        memory: this.#arena.memory,
        control: this.#block.start,
      });
    });
  }

  #post(message: ToThread): void {
    for (const thread of this.#threads) thread.postMessage(message);
  }

  #enqueue(kernel: number): Promise<void> {
    const run = this.#last.then(() => this.#run(kernel));
    this.#last = run.catch(() => undefined);
    return run;
  }

  #run(kernel: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#broken !== null) return reject(this.#broken);
      this.#waiting = { resolve, reject };
      this.#post({ type: "run", generation: openRun(this.#control, kernel) });
    });
  }

  #settle(): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (failed(this.#control)) waiting?.reject(new KernelZooError("run", TRAPPED));
    else waiting?.resolve();
  }

  #stop(reason: string): void {
    this.#broken ??= new KernelZooError("run", reason);
    for (const thread of this.#threads) thread.terminate();
    this.#waiting?.reject(this.#broken);
    this.#waiting = null;
  }
}
