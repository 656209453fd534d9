import type { FinalAnswer } from "../gateway/retry.js";
import type { SessionResponse } from "../wire/types.js";

const UNAUTHORISED = 401;
/** Share of a session's time after which the next one is opened, so that no request meets its end. */
const RENEWED_AT = 0.75;

/** Requests that carry a token. One that was refused with it is asked once more with the next. */
export interface Session {
  call<T>(request: (token: string) => Promise<FinalAnswer<T>>): Promise<FinalAnswer<T>>;
}

/** `renewAtMs`: by the clock of `session`; unknown until it is open. */
interface Held {
  readonly opened: Promise<SessionResponse>;
  renewAtMs: number;
}

/**
 * Opens a session at the first request, and the next before it ends. `open` rejects when the
 * gateway refuses. `now` in milliseconds.
 */
export function session(
  open: () => Promise<SessionResponse>,
  now: () => number = () => performance.now(),
): Session {
  let current: Held | null = null;
  const next = (): Held => {
    const held: Held = { opened: open(), renewAtMs: Number.POSITIVE_INFINITY };
    held.opened.then(
      ({ expires_in_s }) => {
        held.renewAtMs = now() + RENEWED_AT * 1000 * expires_in_s;
      },
      () => {
        if (current === held) current = null;
      },
    );
    return held;
  };
  const held = (): Held => {
    if (current === null || now() >= current.renewAtMs) current = next();
    return current;
  };
  return {
    async call(request) {
      const used = held();
      const answer = await request((await used.opened).token);
      if (answer.kind !== "refused" || answer.status !== UNAUTHORISED) return answer;
      // It ended while the device slept, or belongs to the network that the device was in before.
      // Another request may have replaced it already.
      if (current === used) current = null;
      return request((await held().opened).token);
    },
  };
}
