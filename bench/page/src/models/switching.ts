/**
 * Measures what a page notices while kernels for few runs give way to those that are the fastest
 * once they are warm: how late its own timers come, and how long an inference waits for its first
 * call.
 */
import type { Model } from "../../../../client/src/model/model.js";
import { now } from "../../../../client/src/timing/clock.js";
import { lastBegan } from "./began.js";

/** Longest milliseconds, 0 where nothing was timed. */
export interface Noticed {
  /** By how much a timer of the page's own thread came late. */
  readonly stallMs: number;
  /** From asking for an inference until its worker began with it. */
  readonly delayMs: number;
}

/** `quiet` is of the same page and the same runs once nothing is switched any more. */
export interface Switching {
  readonly swaps: number;
  readonly switching: Noticed;
  readonly quiet: Noticed;
}

/** Browsers hold nested timers back for so long. */
const TIMER_MS = 4;
/** A kernel is prepared while the page has wanted no run for 50 ms; runs come at any point of that. */
const RESTS_MS = [80, 95, 110, 125, 140, 155, 170];
/** Without a switch for so long, all are done. */
const QUIET_MS = 3_000;
const LIMIT_MS = 60_000;

type Event = readonly [atMs: number, lateMs: number];

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

const most = (events: readonly Event[]): number =>
  Math.max(0, ...events.map(([, lateMs]) => lateMs));

/** Runs the model again and again until its kernels are switched, and a while after that. */
export async function watchSwitching(
  model: Model,
  run: () => Promise<unknown>,
): Promise<Switching> {
  const stalls: Event[] = [];
  const delays: Event[] = [];
  let [swaps, swappedMs] = [0, now()];
  const end = model.on("swap", () => {
    swaps += 1;
    swappedMs = now();
  });
  let watched = true;
  const tick = (askedMs: number): void => {
    const atMs = now();
    stalls.push([atMs, atMs - askedMs - TIMER_MS]);
    if (watched) setTimeout(tick, TIMER_MS, atMs);
  };
  setTimeout(tick, TIMER_MS, now());
  const until = now() + LIMIT_MS;
  for (let i = 0; now() < Math.min(until, swappedMs + QUIET_MS); i++) {
    const askedMs = performance.timeOrigin + now();
    await run();
    const began = lastBegan();
    if (began !== null) delays.push([now(), began.startMs - askedMs]);
    await sleep(RESTS_MS[i % RESTS_MS.length] as number);
  }
  watched = false;
  end();
  const noticed = (fits: (event: Event) => boolean): Noticed => ({
    stallMs: most(stalls.filter(fits)),
    delayMs: most(delays.filter(fits)),
  });
  return {
    swaps,
    switching: noticed(([atMs]) => atMs <= swappedMs),
    quiet: noticed(([atMs]) => atMs > swappedMs),
  };
}
