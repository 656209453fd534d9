/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */
import { Engine } from "./engine.js";
import { helping } from "./helping.js";
import type { Keeping } from "./messages.js";
import { Preparation, prepare } from "./preparing.js";
import { serve } from "./serve.js";
import { unpacking } from "./unpacking.js";

serve(
  async (order, ports) => {
    const preparation = new Preparation(order, { spawn: ports.beside, stored: unpacking });
    const engine = await Engine.load(order, { ...ports, bring: preparation.bring });
    return Object.assign(engine, { keep: (asked: Keeping) => preparation.keep(engine, asked) });
  },
  helping((order, modules, post) => prepare(order, modules, post, unpacking)),
);
