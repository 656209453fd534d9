/** Entry of a model's worker, inlined into the runtime as text. */
import { serve } from "../../executor/worker-server.js";
import { loadOnWasm } from "./executor.js";

serve(loadOnWasm);
