/** A model's worker with threads and kept weights, which only pages that use them load. */
import source from "./full-worker.js?inlined";

export { source };
