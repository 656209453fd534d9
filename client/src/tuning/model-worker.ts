/** Entry of the worker of a tuned model on WebAssembly, inlined into the tuner as text. */
import { breathing } from "../runtime/breathing.js";
import { Engine } from "../runtime/engine.js";
import { helping } from "../runtime/helping.js";
import { Preparation, prepare } from "../runtime/preparing.js";
import { unpacking } from "../runtime/unpacking.js";
import { serveTuned } from "./serving.js";
import { Swapper, spareBytes } from "./swapper.js";

serveTuned(
  async (order, ports, tell) => {
    const { weights, activations } = order.answer.plan.memory;
    const spare = spareBytes(weights, activations);
    const beside = { keeper: null, spawn: ports.beside, stored: unpacking };
    const { bring } = new Preparation(order, beside);
    const engine = await Engine.load(order, { ...ports, bring, spareBytes: spare });
    const swapper = new Swapper(engine, {
      breathe: breathing(),
      regressed: (workload, reason) => tell({ type: "regression", workload, reason }),
    });
    return {
      loaded: engine.loaded,
      stored: engine.stored,
      run: (feeds, aborted) => swapper.run(feeds, aborted),
      check: (told, aborted) => swapper.check(told, aborted),
      swap: (all) => swapper.swap(all),
      takeBack: (workload, reason) => swapper.takeBack(workload, reason),
    };
  },
  helping((order, modules, post) => prepare(order, modules, post, unpacking)),
);
