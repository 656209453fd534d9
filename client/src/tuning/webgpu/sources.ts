/** The workers of models that are tuned on a GPU, in a file that pages load with the first of them. */
import measurer from "./measurer.js?inlined";
import model from "./model-worker.js?inlined";

export const SOURCES = { measurer, model };
