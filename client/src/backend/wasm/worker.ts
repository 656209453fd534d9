/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */
import { helping } from "../../executor/helper-server.js";
import { serve } from "../../executor/worker-server.js";
import { Preparation, preparing } from "../../weights/preparer.js";
import { unpacking } from "../../weights/unpacker.js";
import { loadOnWasm } from "./executor.js";

serve(
  async (order, ports) => {
    const beside = { spawn: ports.beside, stored: unpacking, given: ports.given };
    const preparation = new Preparation(order, beside);
    const executor = await loadOnWasm(order, { ...ports, bring: preparation.bring });
    return { ...executor, keep: (asked) => preparation.keep(executor, asked) };
  },
  helping(preparing(unpacking)),
);
