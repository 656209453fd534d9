/** Entry of the worker of a model on the GPU, inlined as text. */
import { serve } from "../../executor/worker-server.js";
import { GpuExecutor, tellSoon } from "./executor.js";

serve((order, ports) => GpuExecutor.load(order, { ...ports, soon: tellSoon }));
