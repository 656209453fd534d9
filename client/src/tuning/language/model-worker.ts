/** Entry of the worker of a tuned language model on a GPU, inlined as text. */
import { Decoder } from "../../language/decoder.js";
import { breathing } from "../../runtime/breathing.js";
import { serveTuned } from "../serving.js";
import { DecoderSwapper } from "./swapper.js";

serveTuned(
  async (order, ports, tell) => {
    const decoder = await Decoder.load(order, ports);
    const swapper = new DecoderSwapper(decoder, {
      breathe: breathing(),
      regressed: (workload, reason) => tell({ type: "regression", workload, reason }),
    });
    // Calls of a token overlap on a GPU, so that texts do not tell what each takes.
    const told = swapper.times().then((times) => tell({ type: "timed", times }));
    told.catch(() => undefined); // Texts hear of a device that was lost.
    return {
      loaded: decoder.loaded,
      stored: decoder.stored,
      run: (feeds, aborted) => swapper.run(feeds, aborted),
      check: (told, aborted) => swapper.check(told, aborted),
      swap: (all) => swapper.swap(all),
      takeBack: (workload, reason) => swapper.takeBack(workload, reason),
    };
  },
  undefined,
  true,
);
