/** Entry of the worker of a language model on WebAssembly, inlined as text. */
import { Crew, crewMember } from "../../runtime/crew.js";
import { serve } from "../../runtime/serve.js";
import { WasmDecoder } from "./decoder.js";

serve(WasmDecoder.load, { start: Crew.start, member: crewMember });
