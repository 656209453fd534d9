/** Entry of the worker of a tuned model on a GPU, inlined as text. */
import { GpuEngine } from "../../executor/webgpu-executor.js";
import { serveTuned } from "../swap-server.js";
import { GpuSwapper } from "./kernel-swapper.js";

serveTuned(
  async (order, ports, swaps) => {
    const engine = await GpuEngine.load(order, ports);
    return { engine, swapper: new GpuSwapper(engine, swaps) };
  },
  undefined,
  true,
);
