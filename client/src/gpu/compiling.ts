/**
 * Pipelines that a driver is asked for: a few at a time, each with a deadline.
 *
 * A driver that does not end cannot be stopped: destroying the device makes the browser's GPU
 * process wait for it, and with it every page. So the device is left alone, nothing more is asked of
 * the driver until it has ended, and where that takes too long there is no GPU in this browser.
 */
import { KernelZooError } from "../engine/error.js";
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

/** A driver takes 20 to 100 ms for one, that of a machine without a GPU up to two seconds. */
const LIMIT_MS = 10_000;
/** After its deadline a slow driver may still end; others wait so long for it. */
const RETURN_MS = 20_000;
/** Drivers compile on threads of their own. */
const AT_ONCE = 4;

/** A kernel whose pipeline alone was asked for, and did not come. */
export class CompileDeadline extends KernelZooError {
  constructor(limitMs: number) {
    super("compile", `The GPU's driver did not compile this kernel within ${limitMs / 1000} s.`);
  }
}

/** What every other kernel of the device meets then: whichever is at fault, it is not told of these. */
export class SharedDeadline extends KernelZooError {
  constructor(limitMs: number) {
    super("run", `The GPU was given up: its driver did not answer within ${limitMs / 1000} s.`);
  }
}

let atOnce = AT_ONCE;
const begin = limiter(() => atOnce);
/** What drivers are asked for now. */
const asked = new Set<Promise<unknown>>();
/** What a driver was asked for and has not ended, though its device was given up. */
const left = new Set<Promise<unknown>>();

/**
 * From now on one pipeline at a time, so that it is known whose a deadline was. So it is after the
 * first one; a page that was closed because of it asks for it itself.
 */
export function compileOneByOne(): void {
  atOnce = 1;
}

export const compilesOneByOne = (): boolean => atOnce === 1;

const after = <T>(ms: number, value: T): Promise<T> =>
  new Promise((resolve) => setTimeout(resolve, ms, value));

async function driverReturned(): Promise<void> {
  if (left.size === 0) return;
  const returned = Promise.all(left).then(() => true);
  if (await Promise.race([returned, after(RETURN_MS, false)])) return;
  throw new KernelZooError(
    "profile",
    "The GPU's driver does not end a kernel that was given up; open the page in a new browser.",
  );
}

/** Gives the device up, and says of whom the deadline was: of the only one, or of nobody yet. */
function missed(open: OpenDevice, limitMs: number): KernelZooError {
  const shared = new SharedDeadline(limitMs);
  const error = asked.size === 1 ? new CompileDeadline(limitMs) : shared;
  compileOneByOne();
  open.abandon(shared);
  for (const making of asked) leave(open, making);
  return error;
}

function leave(open: OpenDevice, making: Promise<unknown>): void {
  const forget = (): void => void left.delete(ended);
  const ended: Promise<unknown> = Promise.race([making, open.device.lost]).then(forget, forget);
  left.add(ended);
}

async function inTime<T>(open: OpenDevice, make: () => Promise<T>, limitMs: number): Promise<T> {
  await driverReturned();
  if (open.loss !== null) throw open.loss;
  const making = make();
  asked.add(making);
  try {
    return await open.settled(making, limitMs);
  } catch (thrown) {
    const late = thrown instanceof KernelZooError && thrown.stage === "timeout";
    throw late ? missed(open, limitMs) : thrown;
  } finally {
    asked.delete(making);
  }
}

/**
 * What `make` asks the driver for. Throws what it throws, and KernelZooError: compile after the
 * deadline, run when the device is lost, profile when the driver is still at what was given up.
 */
export function compiled<T>(
  open: OpenDevice,
  make: () => Promise<T>,
  limitMs = LIMIT_MS,
): Promise<T> {
  return begin(() => inTime(open, make, limitMs));
}
