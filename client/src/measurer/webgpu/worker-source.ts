/** The worker that measures candidates on a GPU, in a file that pages load with the first tuned model. */
import source from "./worker.js?parts";

export { source };
