/** Entry of the worker of a language model on WebAssembly, inlined as text. */
import { helping } from "../../executor/helper-server.js";
import { serve } from "../../executor/worker-server.js";
import { WasmDecoder } from "./decoder.js";

serve(WasmDecoder.load, helping());
