/** Entry of the worker that measures candidates on a GPU, inlined as text. */
import { DeviceOwner } from "../../backend/webgpu/device.js";
import { cachedPrograms } from "../../measurer/kernel-cache.js";
import { gpuInstrument } from "../../measurer/webgpu/instrument.js";
import { measuring, type Slices } from "../candidate-server.js";

const owner = new DeviceOwner();

/**
 * Measuring and the inferences share one GPU, where no work gives way to other work: an inference
 * waits for a sample, or for work that sets tensors up. Slices and loads are held apart: where
 * inferences follow each other closely, each of the two begins in one of 60 lulls and may hold up
 * two inferences, so that at most one of 15 is held up.
 */
const SLICES: Slices = { ms: 6, oneOf: 60 };
/** A driver compiles a kernel in about so long. */
const LOAD_MS = 30;

measuring((origin, signal, pacing, lulls) => {
  const loads = lulls.gate(LOAD_MS, SLICES.oneOf);
  const programs = cachedPrograms(origin, signal, (work) => lulls.within(work, loads));
  return gpuInstrument(owner, programs, {}, pacing);
}, SLICES);
