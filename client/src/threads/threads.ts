import type { Arena } from "../engine/arena.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { type Thread, ThreadPool } from "./pool.js";

/** What a page asks for: `auto` is one thread for each logical core, 8 at the most. */
export type ThreadCount = number | "auto";

/** `single` runs kernels in the calling thread; `reason` is null where that was asked for. */
export type Threads =
  | { readonly kind: "pool"; readonly pool: ThreadPool }
  | { readonly kind: "single"; readonly reason: string | null };

/** What the page is allowed, read once. */
export interface ThreadLimits {
  readonly isolated: boolean;
  readonly logicalCores: number;
}

export type ThreadPlan =
  | { readonly kind: "pool"; readonly count: number }
  | Extract<Threads, { readonly kind: "single" }>;

const MOST_BY_ITSELF = 8;
const MOST_ASKED = 64;

const NOT_ISOLATED =
  "The page is not cross-origin isolated, so its threads cannot share memory. Serve it with " +
  "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp.";

const REMEDY = "If the page has a content security policy, it must allow worker-src blob:.";

/** How many threads to start, or why none. Throws KernelZooError (run) for a senseless count. */
export function planThreads(asked: ThreadCount, limits: ThreadLimits): ThreadPlan {
  const wanted = asked === "auto" ? Math.min(limits.logicalCores, MOST_BY_ITSELF) : asked;
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > MOST_ASKED) {
    throw new KernelZooError(
      "run",
      `threads is ${asked}; ask for 1 to ${MOST_ASKED}, or for "auto".`,
    );
  }
  if (asked === 1) return { kind: "single", reason: null };
  if (limits.logicalCores === 1) {
    return { kind: "single", reason: "This device tells of one logical core." };
  }
  if (!limits.isolated) return { kind: "single", reason: NOT_ISOLATED };
  return { kind: "pool", count: wanted };
}

const limitsHere = (): ThreadLimits => ({
  isolated: globalThis.crossOriginIsolated === true,
  logicalCores: globalThis.navigator?.hardwareConcurrency ?? 1,
});

/** Workers from a blob, which is of the page's own origin and inherits its isolation. */
async function spawningFromBlobs(): Promise<() => Thread> {
  const { source } = await import("./source.js");
  return () => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const worker = new Worker(url, { name: "kernelzoo" });
    worker.addEventListener("message", () => URL.revokeObjectURL(url), { once: true });
    return worker;
  };
}

/** Starts what was asked for; where it does not work, one thread with the reason. */
export async function startThreads(
  arena: Arena,
  asked: ThreadCount,
  limits: ThreadLimits = limitsHere(),
  spawning: () => Promise<() => Thread> = spawningFromBlobs,
): Promise<Threads> {
  const plan = planThreads(asked, limits);
  if (plan.kind === "single") return plan;
  try {
    return { kind: "pool", pool: await ThreadPool.start(arena, plan.count, await spawning()) };
  } catch (thrown) {
    return { kind: "single", reason: `${sentence(thrown)} ${REMEDY}` };
  }
}
