/** Entry of the worker of a tuned model on WebAssembly, inlined into the tuner as text. */
import { Engine } from "../runtime/engine.js";
import { helping } from "../runtime/helping.js";
import { Preparation, preparing } from "../runtime/preparing.js";
import { unpacking } from "../runtime/unpacking.js";
import { serveTuned } from "./serving.js";
import { Swapper, spareBytes } from "./swapper.js";

serveTuned(
  async (order, ports, swaps) => {
    const { weights, activations } = order.answer.plan.memory;
    const spare = spareBytes(weights, activations);
    const beside = { spawn: ports.beside, stored: unpacking };
    const { bring } = new Preparation(order, beside);
    const engine = await Engine.load(order, { ...ports, bring, spareBytes: spare });
    return { engine, swapper: new Swapper(engine, swaps) };
  },
  helping(preparing(unpacking)),
);
