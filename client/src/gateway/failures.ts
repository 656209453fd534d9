/** Kernels that failed in this page, and what the zoo is told of them. */
import { SharedDeadline } from "../backend/webgpu/deadlines.js";
import { KernelZooError, type Stage } from "../engine/error.js";
import { after } from "../timing/clock.js";
import type { FailureReport, WrongOutputReport } from "../wire/types.js";

/** A kernel as a failure names it. */
export type FailedKernel = Omit<FailureReport, "stage" | "detail">;

/** Stages at which it is the kernel that fails, not the network, the memory or the page. */
const KERNEL_STAGES: readonly Stage[] = ["validate", "compile", "run", "compare", "timeout"];
const LONGEST_DETAIL = 500;

const TRY_LATER = 429;
/** A network that is told to come back later than this has told enough for a day. */
const LONGEST_WAIT_S = 60;
/** Browsers keep 64 KiB of requests that outlive their page, and fail what is more. */
const AT_ONCE = 32;

let underWay = 0;
/** The other reports are sent one after another, the next from `nextMs` on. */
let others: Promise<void> = Promise.resolve();
let nextMs = 0;

/**
 * Posts a report to `url` without waiting for an answer. A zoo that was told too much at once is
 * told again when it takes more; one that is down hears of it from other pages.
 */
export function postReport(url: URL, report: FailureReport | WrongOutputReport): void {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(report),
    keepalive: true,
  };
  /** Says whether there is nothing more to do. */
  const send = async (): Promise<boolean> => {
    const { status, headers } = await fetch(url, init);
    const wait_s = Number(headers.get("Retry-After")) || 1;
    if (status !== TRY_LATER || wait_s > LONGEST_WAIT_S) return true;
    nextMs = performance.now() + 1000 * wait_s;
    return false;
  };
  const sendInTurn = async (): Promise<void> => {
    do {
      await after(nextMs - performance.now());
    } while (!(await send()));
  };
  const sendAtOnce = async (): Promise<boolean> => {
    if (underWay >= AT_ONCE) return false;
    underWay++;
    return send().finally(() => underWay--);
  };
  sendAtOnce()
    .then((done) => {
      if (!done) others = others.then(sendInTurn).catch(() => undefined);
    })
    .catch(() => undefined);
}

/** Sends one report for each kernel that fails, and remembers which have failed. */
export class Failures {
  readonly #send: (report: FailureReport) => void;
  readonly #reasons = new Map<string, string>();

  constructor(send: (report: FailureReport) => void) {
    this.#send = send;
  }

  /** Says why the artifact is not to be tried again; null where it has not failed. */
  reason(sha256: string): string | null {
    return this.#reasons.get(sha256) ?? null;
  }

  /**
   * Reports what a kernel has thrown, unless the fault is not the kernel's or is reported already.
   */
  note(kernel: FailedKernel, thrown: unknown): void {
    if (!(thrown instanceof KernelZooError) || !KERNEL_STAGES.includes(thrown.stage)) return;
    // Several kernels were compiling, and any of them may be at fault.
    if (thrown instanceof SharedDeadline) return;
    if (this.#reasons.has(kernel.artifact)) return;
    this.#reasons.set(kernel.artifact, thrown.message);
    const stage = thrown.stage as FailureReport["stage"];
    const detail = thrown.message.replaceAll("\0", "").slice(0, LONGEST_DETAIL);
    this.#send({ ...kernel, stage, detail });
  }
}
