/**
 * The clock of a GPU that has nothing to do is low: 345 MHz on an H200 that reaches 1,980, and what
 * is measured first then takes several times as long. So work runs before anything is timed, until
 * its times no longer fall.
 */
import { type Clock, now } from "../../timing/clock.js";
import type { Sliced } from "./binding.js";
import type { GpuTimer } from "./timer.js";

/** Work that raises the clock of a GPU that was idle; NVIDIA's take a quarter of a second. */
export const RAISING_MS = 300;
/** A GPU that was at work a moment ago needs this much. */
const KEEPING_MS = 12;
/** After so long without work the clock may have fallen. */
const IDLE_MS = 50;
/** One submission; longer ones would hold up the page. */
const READING_MS = 10;
const MOST_CALLS = 4_096;
/** Readings that are this close to the best are of one clock. */
const STEADY = 1.1;
const STEADY_READINGS = 3;
/** A clock that does not settle is not waited for longer. */
const MOST_RAISING_MS = 900;
const MOST_KEEPING_MS = 60;

/** The time at which the GPU last had work of ours, in milliseconds of the page's clock. */
export interface GpuActivity {
  lastMs: number;
}

export const noActivity = (): GpuActivity => ({ lastMs: Number.NEGATIVE_INFINITY });

/**
 * Runs `work` until the clock is up: for 300 ms where the GPU was idle, else for a moment, and on
 * until its times are steady. Slow work, of which one call takes as long as a reading, has raised
 * the clock by itself. Throws KernelZooError: run, timeout at `untilMs`.
 */
export async function raiseClock(
  timer: GpuTimer,
  work: Sliced,
  activity: GpuActivity,
  untilMs: number,
  clock: Clock = now,
): Promise<void> {
  const begun = clock();
  const wasIdle = begun - activity.lastMs > IDLE_MS;
  const leastMs = wasIdle ? RAISING_MS : KEEPING_MS;
  const mostMs = wasIdle ? MOST_RAISING_MS : MOST_KEEPING_MS;
  const readings: number[] = [];
  for (let calls = 1; ; ) {
    const ns = await timer.passNs((pass) => {
      for (let call = 0; call < calls; call++) work.encode(pass);
    }, untilMs - clock());
    const elapsedMs = clock() - begun;
    readings.push(ns / calls);
    const fill = Math.floor((READING_MS * 1e6) / Math.max(ns / calls, 1));
    calls = Math.min(Math.max(calls, Math.min(fill, 8 * calls)), MOST_CALLS);
    const isUp = elapsedMs >= leastMs && (isSteady(readings) || ns >= 2e6 * READING_MS);
    if (isUp || elapsedMs >= mostMs || clock() >= untilMs) break;
  }
  activity.lastMs = clock();
}

function isSteady(readings: readonly number[]): boolean {
  const best = Math.min(...readings);
  const last = readings.slice(-STEADY_READINGS);
  return last.length === STEADY_READINGS && last.every((reading) => reading <= STEADY * best);
}
