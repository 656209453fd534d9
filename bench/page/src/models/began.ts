/**
 * Notes how runs of a model that is tuned, or switches its kernels, began: its worker tells it with
 * their outputs.
 */

import { now } from "../../../../client/src/timing/clock.js";
import type { Began } from "../../../../client/src/tuning/messages.js";

let last: Began | null = null;
/**
 * The time, in milliseconds since 1970, when the worker that measures candidates answered that it
 * rests.
 */
let restedMs = Number.NEGATIVE_INFINITY;

globalThis.Worker = class extends Worker {
  constructor(...given: ConstructorParameters<typeof Worker>) {
    super(...given);
    // This listener is told before the runtime's.
    this.addEventListener("message", ({ data }) => {
      if (data?.type === "done" && data.began) last = data.began;
      if (data?.type === "pong") restedMs = performance.timeOrigin + now();
    });
  }

  override postMessage(message: unknown, options?: Transferable[] | StructuredSerializeOptions) {
    super.postMessage(message, options as StructuredSerializeOptions);
    // The worker hears the ping once its slice has ended.
    if ((message as { readonly type?: string }).type === "rest") this.postMessage({ type: "ping" });
  }
};

/** Returns how the run that ended last began; null where no worker has told it. */
export const lastBegan = (): Began | null => last;

/**
 * Returns when the slice ended that was measured as the last run was asked for, in milliseconds
 * since 1970; the begin of that run where it ended after that.
 */
export const measuredUntilMs = (): number => Math.min(restedMs, last?.startMs ?? restedMs);
