/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */
import { Crew, crewMember } from "./crew.js";
import { Engine } from "./engine.js";
import { Keeper } from "./keeping.js";
import { Preparation, prepare } from "./preparing.js";
import { serve } from "./serve.js";
import { unpacking } from "./unpacking.js";

serve(
  async (order, ports) => {
    const preparation = new Preparation(order, {
      keeper: order.keep ? new Keeper(order) : null,
      spawn: ports.beside,
      stored: unpacking,
    });
    const engine = await Engine.load(order, { ...ports, bring: preparation.bring });
    const keep = (busy: () => boolean) => preparation.keep(engine, busy);
    return Object.assign(engine, { keep });
  },
  { start: Crew.start, member: crewMember },
  false,
  (order, modules, post) => prepare(order, modules, post, unpacking),
);
