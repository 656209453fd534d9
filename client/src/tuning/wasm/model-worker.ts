/** Entry of the worker of a tuned model on WebAssembly, inlined into the tuner as text. */

import { helping } from "../../executor/helper-server.js";
import { Engine } from "../../executor/wasm-executor.js";
import { Preparation, preparing } from "../../weights/preparer.js";
import { unpacking } from "../../weights/unpacker.js";
import { serveTuned } from "../swap-server.js";
import { Swapper, spareBytes } from "./kernel-swapper.js";

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
