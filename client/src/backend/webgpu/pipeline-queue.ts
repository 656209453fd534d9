/**
 * Pipelines that a driver is asked for: a few at a time, each with a deadline.
 *
 * A driver that does not end cannot be stopped: destroying the device makes the browser's GPU
 * process wait for it, and with it every page. So the device is left as it is, the driver is asked
 * for nothing more until it has ended, and where that takes too long this browser has no GPU.
 */
import { KernelZooError } from "../../engine/error.js";
import { after } from "../../timing/clock.js";
import { CompileDeadline, SharedDeadline } from "./deadlines.js";
import type { OpenDevice } from "./device.js";

/** Lets as many pieces of work go on at once as `most` says then; the others wait in order. */
export function limiter(most: () => number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  const begin = (): void => {
    while (running < most() && waiting.length > 0) {
      running += 1;
      waiting.shift()?.();
    }
  };
  return async (work) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      begin();
    });
    try {
      return await work();
    } finally {
      running -= 1;
      begin();
    }
  };
}

/**
 * A driver takes 20 to 100 ms for a pipeline, that of a machine without a GPU up to two seconds.
 */
const LIMIT_MS = 10_000;
/** Other pipelines wait this long for one that was given up to end after all. */
const RETURN_MS = 20_000;
/**
 * Drivers compile on threads of their own, one pipeline on each. Fewer than `LEAST` leave such a thread
 * idle while the page hears of the last one; of more than `MOST` one may miss its deadline for others.
 */
const LEAST = 4;
const MOST = 16;

let atOnce = Math.min(MOST, Math.max(LEAST, globalThis.navigator?.hardwareConcurrency ?? 0));
const begin = limiter(() => atOnce);
/** Pipelines that drivers compile now. */
const compilingNow = new Set<Promise<unknown>>();
/** Pipelines that a driver still compiles, although their device was given up. */
const unfinished = new Set<Promise<unknown>>();

/**
 * Compiles one pipeline at a time from now on, so that a missed deadline names its kernel. The
 * first missed deadline calls this; a page that follows one which ended that way calls it itself.
 */
export function compileOneByOne(): void {
  atOnce = 1;
}

export const compilesOneByOne = (): boolean => atOnce === 1;

/** Waits for pipelines that were given up. Throws KernelZooError (profile) when they do not end. */
async function driverReturned(): Promise<void> {
  if (unfinished.size === 0) return;
  const returned = Promise.all(unfinished).then(() => true);
  if (await Promise.race([returned, after(RETURN_MS, false)])) return;
  throw new KernelZooError(
    "profile",
    "The GPU's driver does not end a kernel that was given up; open a new browser.",
  );
}

/**
 * Gives the device up and names the fault: a kernel that compiled alone missed the deadline, of
 * several it is not known which one did.
 */
function deadlineError(open: OpenDevice, limitMs: number): KernelZooError {
  const shared = new SharedDeadline(limitMs);
  const error = compilingNow.size === 1 ? new CompileDeadline(limitMs) : shared;
  compileOneByOne();
  open.abandon(shared);
  for (const making of compilingNow) awaitEnd(open, making);
  return error;
}

function awaitEnd(open: OpenDevice, making: Promise<unknown>): void {
  const forget = (): void => void unfinished.delete(ended);
  const ended: Promise<unknown> = Promise.race([making, open.device.lost]).then(forget, forget);
  unfinished.add(ended);
}

async function withinDeadline<T>(
  open: OpenDevice,
  make: () => Promise<T>,
  limitMs: number,
): Promise<T> {
  await driverReturned();
  if (open.loss !== null) throw open.loss;
  const making = make();
  compilingNow.add(making);
  try {
    return await open.settled(making, limitMs);
  } catch (thrown) {
    const late = thrown instanceof KernelZooError && thrown.stage === "timeout";
    throw late ? deadlineError(open, limitMs) : thrown;
  } finally {
    compilingNow.delete(making);
  }
}

/**
 * Has the driver make a pipeline, a few at a time. Throws what it throws, and KernelZooError:
 * compile after the deadline, run when the device is lost, profile when the driver is still at what
 * was given up.
 */
export function compiled<T>(
  open: OpenDevice,
  make: () => Promise<T>,
  limitMs = LIMIT_MS,
): Promise<T> {
  return begin(() => withinDeadline(open, make, limitMs));
}
