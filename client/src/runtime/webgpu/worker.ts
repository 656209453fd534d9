/** Entry of the worker of a model on the GPU, inlined as text. */
import { serve } from "../serve.js";
import { GpuEngine } from "./engine.js";

serve(GpuEngine.load, undefined, true);
