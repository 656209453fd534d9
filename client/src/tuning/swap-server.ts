/** The worker of a model that is tuned: it runs the model, and takes kernels that won. */
import type { Finalist } from "../agent/messages.js";
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { breathing } from "../executor/event-loop.js";
import type { LoadOrder } from "../executor/messages.js";
import { type Help, type Served, type ServePorts, serve } from "../executor/worker-server.js";
import type { Comparison, Found, FromTuned, ToTuned } from "./messages.js";
import type { Refusals, SwapPorts } from "./swap-steps.js";

interface Swapper extends Pick<Served, "run" | "check"> {
  /** Throws KernelZooError (network), with all as it was. */
  swap(all: readonly Found[]): Promise<Refusals>;
  takeBack(workload: string, reason: string): Promise<void> | void;
  /** Where kernels of earlier visits are audited. Throws KernelZooError (network). */
  compare?(all: readonly Comparison[]): Promise<void>;
  /** What each call takes, where runs do not tell it as their calls overlap on a GPU. */
  times?(): Promise<CallTimes>;
  /** Relative times of finalists of a vote by what the whole takes; null where that cannot tell. */
  ranked?(workload: string, finalists: readonly Finalist[]): Promise<readonly number[] | null>;
}

/** What a model was loaded into, and what runs it in its place. */
export interface Tuned {
  readonly engine: Pick<Served, "loaded" | "stored" | "soon">;
  readonly swapper: Swapper;
}

interface WorkerScope {
  postMessage(message: FromTuned): void;
  addEventListener(type: "message", heard: (event: MessageEvent<ToTuned>) => void): void;
}

const scope = globalThis as unknown as WorkerScope;
/** When the zoo's kernels are asked for again that it was away for. */
const AWAY_MS = 5_000;

const isAway = (thrown: unknown): boolean =>
  thrown instanceof KernelZooError && thrown.stage === "network";

/** What else comes is for `serve`. */
const HEARD: ReadonlySet<string> = new Set<ToTuned["type"]>([
  "swap",
  "compare",
  "take-back",
  "rank",
]);

/** What became of a swap. It never rejects, as the page waits for it before it asks for another. */
async function toldOf(swapper: Swapper | null, swaps: readonly Found[]): Promise<FromTuned> {
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

/** Answers messages from now on, as `serve` does of these, and those about swaps one after another. */
export function serveTuned(
  open: (order: LoadOrder, ports: ServePorts, swaps: SwapPorts) => Promise<Tuned>,
  help?: Help,
  together = false,
): void {
  let swapper: Swapper | null = null;
  let last: Promise<void> = Promise.resolve();
  const tell = (told: FromTuned): void => scope.postMessage(told);
  const change = async (asked: ToTuned): Promise<void> => {
    if (asked.type === "take-back") return swapper?.takeBack(asked.workload, asked.reason);
    if (asked.type === "compare") {
      return swapper?.compare?.(asked.comparisons).catch((thrown) => {
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
  const load = async (order: LoadOrder, ports: ServePorts): Promise<Served> => {
    const tuned = await open(order, ports, {
      breathe: breathing(),
      regressed: (workload, reason, again) => tell({ type: "regression", workload, reason, again }),
    });
    swapper = tuned.swapper;
    const told = swapper.times?.().then((times) => tell({ type: "timed", times }));
    told?.catch(() => undefined); // Runs hear of a device that was lost.
    const { engine } = tuned;
    return {
      loaded: engine.loaded,
      stored: engine.stored,
      soon: () => engine.soon?.(),
      run: (...asked) => tuned.swapper.run(...asked),
      check: (...asked) => tuned.swapper.check(...asked),
    };
  };
  serve(load, help, together);
  scope.addEventListener("message", ({ data }) => {
    if (HEARD.has(data.type)) hear(data);
  });
}
