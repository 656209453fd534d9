/** Entry of the worker of a language model, inlined as text. */
import { serve } from "../runtime/serve.js";
import { Decoder } from "./decoder.js";

serve(Decoder.load, undefined, true);
