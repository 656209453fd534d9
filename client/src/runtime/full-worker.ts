/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */
import { Engine } from "./engine.js";
import { helping } from "./helping.js";
import type { Keeping } from "./messages.js";
import { Preparation, preparing } from "./preparing.js";
import { serve } from "./serve.js";
import { unpacking } from "./unpacking.js";

serve(
  async (order, ports) => {
    const beside = { spawn: ports.beside, stored: unpacking, given: ports.given };
    const preparation = new Preparation(order, beside);
    const engine = await Engine.load(order, { ...ports, bring: preparation.bring });
    return Object.assign(engine, { keep: (asked: Keeping) => preparation.keep(engine, asked) });
  },
  helping(preparing(unpacking)),
);
