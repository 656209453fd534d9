/** Entry of the worker of a model that runs on several threads, or whose weights are kept. */
import { Crew, crewMember } from "./crew.js";
import { Engine } from "./engine.js";
import { Keeper } from "./keeping.js";
import { serve } from "./serve.js";

serve(
  async (order, ports) => {
    if (!order.keep) return Engine.load(order, ports);
    const keeper = new Keeper(order.answer);
    const engine = await Engine.load(order, { ...ports, restore: keeper.restore });
    return Object.assign(engine, { keep: keeper.keep });
  },
  { start: Crew.start, member: crewMember },
);
