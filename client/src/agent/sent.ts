/** Requests of this page, exactly as they went out. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  /** The JSON text that was sent. */
  readonly body: string;
}

/** The last of them, newest first, and how much all of them were. */
export interface SentLog {
  readonly requests: readonly (SentRequest & { readonly number: number; readonly at: Date })[];
  readonly count: number;
  readonly bytes: number;
}

export const NOTHING_SENT: SentLog = { requests: [], count: 0, bytes: 0 };

/** A report holds up to 20 kB. */
const KEPT = 50;

export function withSent(log: SentLog, request: SentRequest, at: Date): SentLog {
  const count = log.count + 1;
  return {
    requests: [{ ...request, number: count, at }, ...log.requests].slice(0, KEPT),
    count,
    bytes: log.bytes + new TextEncoder().encode(request.body).length,
  };
}

/** What a request is for, in a visitor's words. */
export function purpose({ path }: Pick<SentRequest, "path">): string {
  if (path === "/v1/sessions") return "This device's profile";
  if (path === "/v1/leases") return "Asking for work";
  if (path === "/v1/ballots") return "A ballot";
  if (path === "/v1/failures") return "A kernel that did not compile here";
  return path.endsWith("/measurements") ? "Timings and sampled numbers" : path;
}
