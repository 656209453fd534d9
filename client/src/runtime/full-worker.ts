/** Entry of the worker of a model on several threads, with kept weights or weights in fewer bits. */
import { Crew, crewMember } from "./crew.js";
import { Engine } from "./engine.js";
import { Keeper } from "./keeping.js";
import { prepare } from "./preparing.js";
import { serve } from "./serve.js";
import { unpacking } from "./unpacking.js";

serve(
  async (order, ports) => {
    if (!order.keep) return Engine.load(order, { ...ports, unpacking });
    const keeper = new Keeper(order.answer);
    const engine = await Engine.load(order, { ...ports, unpacking, restore: keeper.restore });
    return Object.assign(engine, { keep: keeper.keep });
  },
  { start: Crew.start, member: crewMember },
  false,
  (order, modules, post) => prepare(order, modules, post, unpacking),
);
