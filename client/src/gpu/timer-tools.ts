/**
 * What `timer.ts` is given instead of importing it: the timer is bundled with the probe, in a file
 * that most page loads do not fetch and that would hold these modules a second time.
 */
import { KernelZooError } from "../engine/error.js";
import { now } from "../timing/clock.js";
import { submitPass } from "./bound-program.js";
import { readBuffer } from "./buffers.js";

export const TIMER_TOOLS = { KernelZooError, now, readBuffer, submitPass } as const;

export type TimerTools = typeof TIMER_TOOLS;
