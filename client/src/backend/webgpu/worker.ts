/** Entry of the worker of a model on the GPU, inlined as text. */

import { GpuEngine } from "../../executor/webgpu-executor.js";
import { serve } from "../../executor/worker-server.js";

serve(GpuEngine.load, undefined, true);
