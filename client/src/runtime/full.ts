/** A model's worker with all that only some pages use, which these load. */
import source from "./full-worker.js?inlined";

export { source };
