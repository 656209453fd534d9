/** Entry of the worker of a model in an isolated page, with kept weights or weights in fewer bits. */
import { Engine } from "./engine.js";
import type { FilesKind } from "./graph-files.js";
import { helping } from "./helping.js";
import { Preparation, prepare } from "./preparing.js";
import { serve } from "./serve.js";
import { unpacking } from "./unpacking.js";

serve(
  async (order, ports) => {
    const preparation = new Preparation(order, { spawn: ports.beside, stored: unpacking });
    const engine = await Engine.load(order, { ...ports, bring: preparation.bring });
    // A browser without room is told of that when weights are written.
    const ways = (files: FilesKind) => preparation.ways(engine, files).catch(() => null);
    return Object.assign(engine, { ways });
  },
  helping((order, modules, post) => prepare(order, modules, post, unpacking)),
);
