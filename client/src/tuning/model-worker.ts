/** Entry of the worker of a model that is tuned, inlined into the tuner as text. */
import { breathing } from "../runtime/breathing.js";
import { Engine } from "../runtime/engine.js";
import { serve } from "../runtime/serve.js";
import { unpacking } from "../runtime/unpacking.js";
import type { FromTuned, ToTuned } from "./messages.js";
import { Swapper, spareBytes } from "./swapper.js";

interface WorkerScope {
  postMessage(message: FromTuned): void;
  addEventListener(type: "message", heard: (event: MessageEvent<ToTuned>) => void): void;
}

const scope = globalThis as unknown as WorkerScope;
let swapper: Swapper | null = null;
let last: Promise<void> = Promise.resolve();

serve(async (order, ports) => {
  const { weights, activations } = order.answer.plan.memory;
  const spare = spareBytes(weights, activations);
  const engine = await Engine.load(order, { ...ports, unpacking, spareBytes: spare });
  const own = new Swapper(engine, {
    breathe: breathing(),
    regressed: (workload, reason) => scope.postMessage({ type: "regression", workload, reason }),
  });
  swapper = own;
  return {
    loaded: engine.loaded,
    stored: engine.stored,
    run: (feeds, aborted) => own.run(feeds, aborted),
    check: (told, aborted) => own.first(() => engine.check(told, aborted)),
  };
});

async function swap({ swaps }: ToTuned): Promise<void> {
  const refused = await swapper?.swap(swaps);
  scope.postMessage({ type: "swapped", refused: refused ?? swaps.map(() => "It is not loaded.") });
}

scope.addEventListener("message", ({ data }) => {
  if (data.type === "swap") last = last.then(() => swap(data));
});
