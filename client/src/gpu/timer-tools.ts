/** What `timer.ts` takes from the page: it is part of a file that a page without probes never fetches. */
import { KernelZooError } from "../engine/error.js";
import { now } from "../timing/clock.js";
import { submitPass } from "./bound-program.js";
import { readBuffer } from "./buffers.js";

export const TIMER_TOOLS = { KernelZooError, now, readBuffer, submitPass } as const;

export type TimerTools = typeof TIMER_TOOLS;
