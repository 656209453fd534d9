/** Entry of the worker of a language model, inlined as text. */
import { serve } from "../../executor/worker-server.js";
import { GpuDecoder } from "./decoder.js";

serve(GpuDecoder.load);
