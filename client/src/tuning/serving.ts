/** The worker of a model that is tuned: it runs the model, and takes kernels that won. */
import type { LoadOrder } from "../runtime/messages.js";
import { type Help, type Served, type ServePorts, serve } from "../runtime/serve.js";
import type { Found, FromTuned, ToTuned } from "./messages.js";
import type { Refusals } from "./swapping.js";

export interface Swappable extends Served {
  swap(all: readonly Found[]): Promise<Refusals>;
  takeBack(workload: string, reason: string): Promise<void>;
}

interface WorkerScope {
  postMessage(message: FromTuned): void;
  addEventListener(type: "message", heard: (event: MessageEvent<ToTuned>) => void): void;
}

const scope = globalThis as unknown as WorkerScope;

export type Tell = (told: FromTuned) => void;

/** Answers messages from now on, as `serve` does of these, and those about swaps one after another. */
export function serveTuned(
  open: (order: LoadOrder, ports: ServePorts, tell: Tell) => Promise<Swappable>,
  help: Help | undefined,
  together = false,
): void {
  let model: Swappable | null = null;
  let last: Promise<void> = Promise.resolve();
  const tell: Tell = (told) => scope.postMessage(told);
  const change = async (asked: ToTuned): Promise<void> => {
    if (asked.type === "take-back") return model?.takeBack(asked.workload, asked.reason);
    const { swaps } = asked;
    const refused = await model?.swap(swaps);
    tell({ type: "swapped", refused: refused ?? swaps.map(() => "It is not loaded.") });
  };
  serve(
    async (order, ports) => {
      model = await open(order, ports, tell);
      return model;
    },
    help,
    together,
  );
  scope.addEventListener("message", ({ data }) => {
    if (data.type === "swap" || data.type === "take-back") last = last.then(() => change(data));
  });
}
