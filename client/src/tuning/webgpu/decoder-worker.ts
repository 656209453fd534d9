/** Entry of the worker of a tuned language model on a GPU, inlined as text. */
import { Decoder } from "../../language/webgpu/decoder.js";
import { serveTuned } from "../swap-server.js";
import { DecoderSwapper } from "./decoder-swapper.js";

serveTuned(
  async (order, ports, swaps) => {
    const engine = await Decoder.load(order, ports);
    return { engine, swapper: new DecoderSwapper(engine, swaps) };
  },
  undefined,
  true,
);
