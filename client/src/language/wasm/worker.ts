/** Entry of the worker of a language model on WebAssembly, inlined as text. */
import { helping } from "../../runtime/helping.js";
import { serve } from "../../runtime/serve.js";
import { WasmDecoder } from "./decoder.js";

serve(WasmDecoder.load, helping());
