/** Entry of the worker of a model that runs on several threads. */
import { Crew, crewMember } from "./crew.js";
import { Engine } from "./engine.js";
import { serve } from "./serve.js";

serve(Engine.load, { start: Crew.start, member: crewMember });
