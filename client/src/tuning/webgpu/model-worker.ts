/** Entry of the worker of a tuned model on a GPU, inlined as text. */
import { GpuExecutor, tellSoon } from "../../backend/webgpu/executor.js";
import { serveTuned } from "../swap-server.js";
import { GpuModelSwapper } from "./model-swapper.js";

serveTuned(async (order, ports, swaps) => {
  const executor = await GpuExecutor.load(order, { ...ports, soon: tellSoon });
  return { executor, swapper: new GpuModelSwapper(executor, swaps) };
});
