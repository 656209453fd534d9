/** The worker of threads as text, which pages with threads load. */
import source from "./worker.js?inlined";

export { source };
