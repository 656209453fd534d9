/** The workers of models that are tuned on a GPU, in a file that pages load with the first of them. */
import { source as measurer } from "../../measurer/webgpu/worker-source.js";
import { source as model } from "./model-source.js";

export const SOURCES = { measurer, model };
