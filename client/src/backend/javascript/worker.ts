/** Entry of the worker of a model without WebAssembly, inlined as text behind that of its kernels. */
import { Engine } from "../../executor/wasm-executor.js";
import { serve } from "../../executor/worker-server.js";
import { unpacking } from "../../weights/unpacker.js";
import { machine } from "./machine.js";

serve((order, ports) => Engine.load(order, { ...ports, machine, unpacking }));
