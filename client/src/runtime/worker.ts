/** Entry of a model's worker, inlined into the runtime as text. */
import { Engine } from "./engine.js";
import { prepare } from "./preparing.js";
import { serve } from "./serve.js";

serve(Engine.load, null, false, prepare);
