/** The worker of models on a GPU whose kernels are swapped, in a file that pages load with the first. */
import source from "./model-worker.js?parts";

export { source };
