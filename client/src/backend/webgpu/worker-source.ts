/** The worker of models on the GPU as text, in a file that pages load with the first such model. */
export { default as source } from "./worker.js?parts";
