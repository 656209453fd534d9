/** Entry of the worker of a tuned model on WebAssembly, inlined into the tuner as text. */
import { loadOnWasm } from "../../backend/wasm/executor.js";
import { helping } from "../../executor/helper-server.js";
import { Preparation, preparing } from "../../weights/preparer.js";
import { unpacking } from "../../weights/unpacker.js";
import { serveTuned } from "../swap-server.js";
import { spareBytes, WasmModelSwapper } from "./model-swapper.js";

serveTuned(
  async (order, ports, swaps) => {
    const { weights, activations } = order.answer.plan.memory;
    const spare = spareBytes(weights, activations);
    const beside = { spawn: ports.beside, stored: unpacking };
    const { bring } = new Preparation(order, beside);
    const executor = await loadOnWasm(order, { ...ports, bring, spareBytes: spare });
    return { executor, swapper: new WasmModelSwapper(executor, swaps) };
  },
  helping(preparing(unpacking)),
);
