import type { Arena } from "../engine/arena.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { workerOf } from "../engine/page-worker.js";
import { canShare } from "../engine/sharing.js";
import type { SpawnThread, ThreadPool } from "./pool.js";

/** The number that a page asks for: `auto` is one thread for each logical core, 8 at the most. */
export type ThreadCount = number | "auto";

/** The limits that a browser sets a page, read once. */
export interface ThreadLimits {
  readonly isolated: boolean;
  /** False where a browser isolates the page and does not let it hand shared memory to threads. */
  readonly shares?: boolean;
  readonly logicalCores: number;
}

/**
 * The number of threads to start; one thread alone is the calling one. `reason` says why there is
 * one alone, and is null where that was asked for or there are several.
 */
export interface ThreadPlan {
  readonly count: number;
  readonly reason: string | null;
}

const MOST_BY_ITSELF = 8;
const MOST_ASKED = 64;

const NOT_ISOLATED =
  "The page is not cross-origin isolated: serve it with " +
  "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp.";

const NO_SHARING = "This browser lets no threads share memory.";

const REMEDY = "The Content-Security-Policy must allow worker-src blob:.";

/**
 * Plans how many threads to start, or why none. Throws KernelZooError (run) for a senseless count.
 */
export function planThreads(asked: ThreadCount, limits: ThreadLimits): ThreadPlan {
  const count = asked === "auto" ? Math.min(limits.logicalCores, MOST_BY_ITSELF) : asked;
  if (!Number.isInteger(count) || count < 1 || count > MOST_ASKED) {
    throw new KernelZooError(
      "run",
      `threads is ${asked}; ask for 1 to ${MOST_ASKED}, or for "auto".`,
    );
  }
  if (asked === 1) return { count: 1, reason: null };
  if (limits.logicalCores === 1) {
    return { count: 1, reason: "This device tells of one logical core." };
  }
  if (!limits.isolated) return { count: 1, reason: NOT_ISOLATED };
  if (limits.shares === false) return { count: 1, reason: NO_SHARING };
  return { count: count, reason: null };
}

const limitsHere = (): ThreadLimits => ({
  isolated: globalThis.crossOriginIsolated === true,
  shares: canShare(),
  logicalCores: globalThis.navigator?.hardwareConcurrency ?? 1,
});

/** Owns the threads of a zoo. They start with the first kernel that runs on them: models have their own. */
export class Threads {
  readonly #arena: Arena;
  readonly #spawn: SpawnThread;
  #plan: ThreadPlan;
  #starting: Promise<ThreadPool | null> | null = null;
  #disposed = false;

  /** Throws KernelZooError (run) for a senseless count. */
  constructor(
    arena: Arena,
    asked: ThreadCount,
    limits = limitsHere(),
    spawn: SpawnThread = (text) => workerOf(text, "kernelzoo"),
  ) {
    this.#arena = arena;
    this.#plan = planThreads(asked, limits);
    this.#spawn = spawn;
  }

  /** The number of threads, now or once they start; 1 where they did not. */
  get size(): number {
    return this.#plan.count;
  }

  /** The reason why there is one although more were asked for; null otherwise. */
  get reason(): string | null {
    return this.#plan.reason;
  }

  /**
   * Resolves with the pool, which it starts at first; null where there is one thread alone. Throws
   * KernelZooError (run) after `dispose`.
   */
  async pool(): Promise<ThreadPool | null> {
    if (this.size === 1) return null;
    if (this.#disposed) {
      throw new KernelZooError("run", "The threads were disposed of. Open the zoo again.");
    }
    this.#starting ??= this.#start();
    return this.#starting;
  }

  async #start(): Promise<ThreadPool | null> {
    try {
      const { ThreadPool } = await import("./pool.js");
      return await ThreadPool.start(this.#arena, this.size, this.#spawn);
    } catch (thrown) {
      this.#plan = { count: 1, reason: `${sentence(thrown)} ${REMEDY}` };
      return null;
    }
  }

  dispose(): void {
    this.#disposed = true;
    this.#starting?.then((pool) => pool?.dispose());
  }
}
