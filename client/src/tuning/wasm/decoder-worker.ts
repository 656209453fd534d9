/** Entry of the worker of a tuned language model on WebAssembly, inlined as text. */
import type { CallTimes, Dispatcher } from "../../backend/wasm/dispatch.js";
import { loadOnWasm } from "../../backend/wasm/executor.js";
import { helping } from "../../executor/helper-server.js";
import type { LoadOrder } from "../../executor/messages.js";
import { DecoderSteps, WasmDecoder } from "../../language/wasm/decoder.js";
import type { DecoderWire } from "../../wire/model-answer.js";
import { countedPerBlock } from "../run-times.js";
import { serveTuned } from "../swap-server.js";
import { spareBytes, WasmModelSwapper } from "./model-swapper.js";

const never = (): boolean => false;

/**
 * Measures what each call takes on one thread, behind a half of the context and once it has run
 * before. The calls of a token count as often as a block has tokens.
 */
async function timesOf(
  decoder: DecoderWire,
  steps: DecoderSteps,
  dispatcher: Dispatcher,
): Promise<CallTimes> {
  const { length } = decoder;
  let times: CallTimes | null = null;
  for (let run = 0; run < 2; run++) {
    steps.place = [0, [length >> 1, length, 0, 0]];
    times = await dispatcher.run(never);
  }
  return countedPerBlock(times as CallTimes, decoder);
}

serveTuned(async (order: LoadOrder, ports, swaps) => {
  const { plan } = order.answer;
  const spare = spareBytes(plan.memory.weights, plan.memory.activations);
  const executor = await loadOnWasm(order, { ...ports, spareBytes: spare });
  const decoder = new WasmDecoder(executor);
  const stepsAt = (activations: number, dispatcher: Dispatcher): DecoderSteps =>
    new DecoderSteps(plan, executor.memory, activations, dispatcher);
  const swapper = new WasmModelSwapper(executor, swaps, {
    run: (feeds, aborted) => decoder.run(feeds, aborted),
    check: (golden, aborted) => decoder.check(golden, aborted),
    golden: async (feeds, { activations, dispatcher }) =>
      (await stepsAt(activations, dispatcher).golden(feeds, never)) ?? [],
  });
  // The time of a text's calls depends on the place, so that texts do not tell it.
  const times = async (): Promise<CallTimes> => {
    await executor.stored;
    return swapper.apart(({ activations, dispatcher }) =>
      timesOf(plan.decoder as DecoderWire, stepsAt(activations, dispatcher), dispatcher),
    );
  };
  return { executor, swapper: Object.assign(swapper, { times }) };
}, helping());
