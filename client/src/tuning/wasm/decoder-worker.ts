/** Entry of the worker of a tuned language model on WebAssembly, inlined as text. */

import type { CallTimes, Dispatcher } from "../../backend/wasm/dispatch.js";
import { helping } from "../../executor/helper-server.js";
import type { LoadOrder } from "../../executor/messages.js";
import { Engine } from "../../executor/wasm-executor.js";
import { Steps, WasmDecoder } from "../../language/wasm/decoder.js";
import type { DecoderWire } from "../../wire/model-answer.js";
import { serveTuned } from "../swap-server.js";
import { Swapper, spareBytes } from "./kernel-swapper.js";

const never = (): boolean => false;

/**
 * What each call takes on one thread, behind a half of the context and once it has run before. Those
 * of a token count as often as a block has tokens.
 */
async function timesOf(
  { length, rows, step }: DecoderWire,
  steps: Steps,
  dispatcher: Dispatcher,
): Promise<CallTimes> {
  let times: CallTimes | null = null;
  for (let run = 0; run < 2; run++) {
    steps.place = [0, [length >> 1, length, 0, 0]];
    times = await dispatcher.run(never);
  }
  const found = times as CallTimes;
  return found.map((each, i) => (i >= 3 * step && i % 3 === 1 ? rows * each : each));
}

serveTuned(async (order: LoadOrder, ports, swaps) => {
  const { plan } = order.answer;
  const spare = spareBytes(plan.memory.weights, plan.memory.activations);
  const engine = await Engine.load(order, { ...ports, spareBytes: spare });
  const decoder = new WasmDecoder(engine);
  const stepsAt = (activations: number, dispatcher: Dispatcher): Steps =>
    new Steps(plan, engine.memory, activations, dispatcher);
  const swapper = new Swapper(engine, swaps, {
    run: (feeds, aborted) => decoder.run(feeds, aborted),
    check: (told, aborted) => decoder.check(told, aborted),
    golden: async (feeds, { activations, dispatcher }) =>
      (await stepsAt(activations, dispatcher).golden(feeds, never)) ?? [],
  });
  return {
    engine,
    swapper: {
      run: (feeds, aborted) => swapper.run(feeds, aborted),
      check: (told, aborted) => swapper.check(told, aborted),
      swap: (all) => swapper.swap(all),
      takeBack: (workload, reason) => swapper.takeBack(workload, reason),
      // What a text's calls take depends on the place, so that texts do not tell.
      times: async () => {
        await engine.stored;
        return swapper.apart(({ activations, dispatcher }) =>
          timesOf(plan.decoder as DecoderWire, stepsAt(activations, dispatcher), dispatcher),
        );
      },
    },
  };
}, helping());
