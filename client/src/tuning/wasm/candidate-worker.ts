/** Entry of the worker that measures candidates on WebAssembly, inlined into the tuner as text. */
import { Arena } from "../../engine/arena.js";
import { cachedLoader } from "../../measurer/kernel-cache.js";
import { wasmScreening } from "../../measurer/wasm/screening.js";
import { clockStepMs } from "../../timing/clock.js";
import { measuring } from "../candidate-server.js";

const arena = new Arena();
const stepMs = clockStepMs();

/** The milliseconds that a browser's threads are busy to fetch a kernel, or to compile it. */
const LOAD_MS = 5;

measuring((origin, signal, pacing, lulls) => {
  const loads = lulls.gate(LOAD_MS);
  const load = cachedLoader(origin, signal, (work) => lulls.within(work, loads));
  return wasmScreening(arena, load, stepMs, pacing);
});
