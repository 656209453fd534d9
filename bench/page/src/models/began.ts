/** How runs of a model that is tuned, or switches its kernels, began: its worker tells it with their outputs. */
import type { Began } from "../../../../client/src/tuning/messages.js";

let last: Began | null = null;

globalThis.Worker = class extends Worker {
  constructor(...given: ConstructorParameters<typeof Worker>) {
    super(...given);
    // Before the runtime hears of it.
    this.addEventListener("message", ({ data }) => {
      if (data?.type === "done" && data.began) last = data.began;
    });
  }
};

/** How the run that ended last began; null where no worker has told it. */
export const lastBegan = (): Began | null => last;
