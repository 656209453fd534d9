/** Entry of the worker that measures candidates on WebAssembly, inlined into the tuner as text. */
import { cachedLoader } from "../agent/kernel-cache.js";
import { Arena } from "../engine/arena.js";
import { clockStepMs } from "../timing/clock.js";
import { measuring } from "./measuring.js";
import { WasmScreening } from "./screening.js";

const arena = new Arena();
const stepMs = clockStepMs();

measuring((origin, signal, pacing) => {
  const load = cachedLoader(origin, signal);
  return (running, kernels) => WasmScreening.open(arena, running, kernels, load, stepMs, pacing);
});
