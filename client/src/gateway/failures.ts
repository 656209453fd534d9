/** Kernels that failed in this page, and what the zoo is told of them. */
import { SharedDeadline } from "../backend/webgpu/deadlines.js";
import { KernelZooError, type Stage } from "../engine/error.js";
import type { FailureReport, WrongOutputReport } from "../wire/types.js";

/** A kernel as a failure names it. */
export type FailedKernel = Omit<FailureReport, "stage" | "detail">;

/** Stages at which it is the kernel that fails, not the network, the memory or the page. */
const KERNEL_STAGES: readonly Stage[] = ["validate", "compile", "run", "compare", "timeout"];
const LONGEST_DETAIL = 500;

/** Posts a report to `url` without waiting for an answer. */
export function postReport(url: URL, report: FailureReport | WrongOutputReport): void {
  const headers = { "Content-Type": "application/json" };
  // The request outlives a page that is closed; a zoo that is down hears of it from other pages.
  fetch(url, {
    method: "POST",
    headers,
    body: JSON.stringify(report),
    keepalive: true,
  }).catch(() => undefined);
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
