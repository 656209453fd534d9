/** Entry of the worker of a tuned model on a GPU, inlined as text. */
import { breathing } from "../../runtime/breathing.js";
import { GpuEngine } from "../../runtime/webgpu/engine.js";
import { serveTuned } from "../serving.js";
import { GpuSwapper } from "./swapper.js";

serveTuned(
  async (order, ports, tell) => {
    const engine = await GpuEngine.load(order, ports);
    const swapper = new GpuSwapper(engine, {
      breathe: breathing(),
      regressed: (workload, reason) => tell({ type: "regression", workload, reason }),
    });
    // Calls of a run overlap on a GPU, so that runs do not tell what each takes.
    const told = swapper.times().then((times) => tell({ type: "timed", times }));
    told.catch(() => undefined); // Runs hear of a device that was lost.
    return {
      loaded: engine.loaded,
      stored: engine.stored,
      soon: () => engine.soon(),
      run: (...asked) => swapper.run(...asked),
      check: (told, aborted) => swapper.check(told, aborted),
      swap: (all) => swapper.swap(all),
      takeBack: (workload, reason) => swapper.takeBack(workload, reason),
    };
  },
  undefined,
  true,
);
