/** Entry of the worker that measures candidates on a GPU, inlined as text. */
import { gpuInstrument } from "../../agent/gpu-instrument.js";
import { cachedPrograms } from "../../agent/kernel-cache.js";
import { DeviceOwner } from "../../gpu/device.js";
import { measuring } from "../measuring.js";
import { GpuScreening } from "./screening.js";

const owner = new DeviceOwner();

measuring((origin, signal, pacing) => {
  const instrument = gpuInstrument(owner, cachedPrograms(origin, signal), {}, pacing);
  return (running, kernels) => GpuScreening.open(instrument, running, kernels);
});
