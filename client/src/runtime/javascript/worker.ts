/** Entry of the worker of a model without WebAssembly, inlined as text behind that of its kernels. */
import { Engine } from "../engine.js";
import { serve } from "../serve.js";
import { unpacking } from "../unpacking.js";
import { machine } from "./machine.js";

serve((order, ports) => Engine.load(order, { ...ports, machine, unpacking }));
