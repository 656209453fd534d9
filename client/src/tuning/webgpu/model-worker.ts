/** Entry of the worker of a tuned model on a GPU, inlined as text. */
import { GpuEngine } from "../../runtime/webgpu/engine.js";
import { serveTuned } from "../serving.js";
import { GpuSwapper } from "./swapper.js";

serveTuned(
  async (order, ports, swaps) => {
    const engine = await GpuEngine.load(order, ports);
    return { engine, swapper: new GpuSwapper(engine, swaps) };
  },
  undefined,
  true,
);
