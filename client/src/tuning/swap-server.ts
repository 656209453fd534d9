/** The worker of a model that is tuned: it runs the model, and takes kernels that won. */
import type { Finalist } from "../agent/messages.js";
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import type { Executor } from "../executor/executor.js";
import type { LoadOrder } from "../executor/messages.js";
import { type Help, type ServePorts, serve } from "../executor/worker-server.js";
import { poster, serveMessages } from "../rpc.js";
import type { KernelSwapper, SwapPorts } from "./kernel-swapper.js";
import type { FromTuned, ToTuned, Winner } from "./messages.js";

type AnySwapper = Pick<
  KernelSwapper<never, never>,
  "run" | "check" | "swap" | "takeBack" | "betweenRuns" | "compare"
>;

interface Swapper extends AnySwapper {
  /** Measures what each call takes, where runs do not tell it as their calls overlap on a GPU. */
  times?(): Promise<CallTimes>;
  /**
   * Returns the relative times of finalists of a vote by what the whole takes; null where that
   * cannot tell.
   */
  ranked?(workload: string, finalists: readonly Finalist[]): Promise<readonly number[] | null>;
}

/**
 * The executor that a model was loaded into, and the swapper that runs it in the executor's place.
 */
export interface TunedExecutor {
  readonly executor: Pick<Executor, "loaded" | "stored" | "overlaps" | "soon">;
  readonly swapper: Swapper;
}

/** The milliseconds after which the zoo's kernels are asked for again where it was away. */
const AWAY_MS = 5_000;

const isAway = (thrown: unknown): boolean =>
  thrown instanceof KernelZooError && thrown.stage === "network";

/**
 * Swaps kernels in and tells what became of that. It never rejects, as the page waits for the
 * answer before it asks for another swap.
 */
async function toldOf(swapper: Swapper | null, swaps: readonly Winner[]): Promise<FromTuned> {
  const refused = (reason: string) =>
    ({ type: "swapped", refused: swaps.map(() => reason) }) as const;
  if (swapper === null) return refused("It is not loaded.");
  try {
    return { type: "swapped", refused: await swapper.swap(swaps) };
  } catch (thrown) {
    const reason = sentence(thrown);
    return isAway(thrown) ? { type: "postponed", reason } : refused(reason);
  }
}

/**
 * Answers messages from now on: those to a model as `serve` does, and those about swaps one after
 * another.
 */
export function serveTuned(
  open: (order: LoadOrder, ports: ServePorts, swaps: SwapPorts) => Promise<TunedExecutor>,
  help?: Help,
): void {
  let swapper: Swapper | null = null;
  let last: Promise<void> = Promise.resolve();
  const tell = poster<FromTuned>();
  const change = async (asked: ToTuned): Promise<void> => {
    if (asked.type === "take-back") {
      const { workload, reason } = asked;
      // Where a thread does not take the kernel before, all stays as it is.
      await swapper
        ?.betweenRuns(async () => swapper?.takeBack(workload, reason))
        .catch(() => false);
      return;
    }
    if (asked.type === "compare") {
      return swapper?.compare(asked.comparisons).catch((thrown) => {
        if (isAway(thrown)) setTimeout(() => hear(asked), AWAY_MS);
      });
    }
    if (asked.type === "rank") {
      const times = await swapper?.ranked?.(asked.workload, asked.finalists).catch(() => null);
      return tell({ type: "ranked", times: times ?? null });
    }
    tell(await toldOf(swapper, asked.swaps));
  };
  const hear = (asked: ToTuned): void => {
    last = last.then(() => change(asked));
  };
  const load = async (order: LoadOrder, ports: ServePorts): Promise<Executor> => {
    const tuned = await open(order, ports, {
      breathe: breathing(),
      regressed: (workload, reason, again) => tell({ type: "regression", workload, reason, again }),
    });
    swapper = tuned.swapper;
    const timing = swapper.times?.().then((times) => tell({ type: "timed", times }));
    timing?.catch(() => undefined); // Runs hear of a device that was lost.
    const { executor } = tuned;
    return {
      order,
      loaded: executor.loaded,
      stored: executor.stored,
      overlaps: executor.overlaps ?? false,
      soon: () => executor.soon?.(),
      run: (...asked) => tuned.swapper.run(...asked),
      check: (...asked) => tuned.swapper.check(...asked),
    };
  };
  serve(load, help);
  serveMessages<ToTuned>({ swap: hear, compare: hear, "take-back": hear, rank: hear });
}
