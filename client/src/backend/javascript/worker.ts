/** Entry of the worker of a model without WebAssembly, inlined as text behind that of its kernels. */
import { serve } from "../../executor/worker-server.js";
import { unpacking } from "../../weights/unpacker.js";
import { loadOnWasm } from "../wasm/executor.js";
import { machine } from "./machine.js";

serve((order, ports) => loadOnWasm(order, { ...ports, machine, unpacking }));
