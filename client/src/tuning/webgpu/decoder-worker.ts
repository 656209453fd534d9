/** Entry of the worker of a tuned language model on a GPU, inlined as text. */
import { GpuDecoder } from "../../language/webgpu/decoder.js";
import { serveTuned } from "../swap-server.js";
import { DecoderSwapper } from "./decoder-swapper.js";

serveTuned(async (order, ports, swaps) => {
  const executor = await GpuDecoder.load(order, ports);
  return { executor, swapper: new DecoderSwapper(executor, swaps) };
});
