/** How runs of a model that is tuned, or switches its kernels, began: its worker tells it with their outputs. */

import { now } from "../../../../client/src/timing/clock.js";
import type { Began } from "../../../../client/src/tuning/messages.js";

let last: Began | null = null;
/** When what measures candidates answered that it rests. */
let restedMs = Number.NEGATIVE_INFINITY;

globalThis.Worker = class extends Worker {
  constructor(...given: ConstructorParameters<typeof Worker>) {
    super(...given);
    // Before the runtime hears of it.
    this.addEventListener("message", ({ data }) => {
      if (data?.type === "done" && data.began) last = data.began;
      if (data?.type === "pong") restedMs = performance.timeOrigin + now();
    });
  }

  override postMessage(message: unknown, options?: Transferable[] | StructuredSerializeOptions) {
    super.postMessage(message, options as StructuredSerializeOptions);
    // It hears it once its slice has ended.
    if ((message as { readonly type?: string }).type === "rest") this.postMessage({ type: "ping" });
  }
};

/** How the run that ended last began; null where no worker has told it. */
export const lastBegan = (): Began | null => last;

/** When the slice ended that was measured as the last run was asked for; not after that began. */
export const measuredUntilMs = (): number => Math.min(restedMs, last?.startMs ?? restedMs);
