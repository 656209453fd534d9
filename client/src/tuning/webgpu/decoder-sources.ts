/** The workers of language models that are tuned, in a file that pages load with the first of them. */
import { source as measurer } from "../../measurer/webgpu/worker-source.js";
import model from "./decoder-worker.js?parts";

export const SOURCES = { measurer, model };
