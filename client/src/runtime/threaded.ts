/** A model's worker with threads, which only pages that use them load. */
import source from "./threaded-worker.js?inlined";

export { source };
