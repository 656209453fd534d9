/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */

import { Preparation, preparing } from "../weights/preparer.js";
import { unpacking } from "../weights/unpacker.js";
import { helping } from "./helper-server.js";
import type { Keeping } from "./messages.js";
import { Engine } from "./wasm-executor.js";
import { serve } from "./worker-server.js";

serve(
  async (order, ports) => {
    const beside = { spawn: ports.beside, stored: unpacking, given: ports.given };
    const preparation = new Preparation(order, beside);
    const engine = await Engine.load(order, { ...ports, bring: preparation.bring });
    return Object.assign(engine, { keep: (asked: Keeping) => preparation.keep(engine, asked) });
  },
  helping(preparing(unpacking)),
);
