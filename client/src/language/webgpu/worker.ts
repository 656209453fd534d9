/** Entry of the worker of a language model, inlined as text. */
import { serve } from "../../executor/worker-server.js";
import { Decoder } from "./decoder.js";

serve(Decoder.load, undefined, true);
