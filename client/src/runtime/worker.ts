/** Entry of a model's worker, inlined into the runtime as text. */
import { Engine } from "./engine.js";
import { serve } from "./serve.js";

serve(Engine.load);
