import { KernelZooError, type Stage } from "../engine/error.js";
import { SharedDeadline } from "../gpu/compiling.js";
import type { FailureReport } from "../wire/types.js";

/** A kernel as a failure names it. */
export type FailedKernel = Omit<FailureReport, "stage" | "detail">;

/** Stages at which it is the kernel that fails, not the network, the memory or the page. */
const OF_KERNELS: readonly Stage[] = ["validate", "compile", "run", "compare", "timeout"];
const LONGEST_DETAIL = 500;

/**
 * Kernels that failed in this page. Each is told to the zoo once, without waiting for an answer,
 * and is not tried again: the default takes its place.
 */
export class Failures {
  readonly #url: URL;
  readonly #reasons = new Map<string, string>();

  constructor(origin: URL) {
    this.#url = new URL("./v1/failures", origin);
  }

  /** Why the artifact is not to be tried again; null where it has not failed. */
  reason(sha256: string): string | null {
    return this.#reasons.get(sha256) ?? null;
  }

  /** What was thrown by a kernel; nothing is told of what is not the kernel's fault. */
  note(kernel: FailedKernel, thrown: unknown): void {
    if (!(thrown instanceof KernelZooError) || !OF_KERNELS.includes(thrown.stage)) return;
    // It is not known which of them it was.
    if (thrown instanceof SharedDeadline) return;
    if (this.#reasons.has(kernel.artifact)) return;
    this.#reasons.set(kernel.artifact, thrown.message);
    const stage = thrown.stage as FailureReport["stage"];
    const detail = thrown.message.replaceAll("\0", "").slice(0, LONGEST_DETAIL);
    const body = JSON.stringify({ ...kernel, stage, detail } satisfies FailureReport);
    const headers = { "Content-Type": "application/json" };
    // A page that goes away lets the request go on; a zoo that is away hears of it from others.
    fetch(this.#url, { method: "POST", headers, body, keepalive: true }).catch(() => undefined);
  }
}
