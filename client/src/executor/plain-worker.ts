/** Entry of a model's worker, inlined into the runtime as text. */
import { Engine } from "./wasm-executor.js";
import { serve } from "./worker-server.js";

serve(Engine.load);
