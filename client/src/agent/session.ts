import type { FinalAnswer } from "../gateway/retry.js";
import type { SessionResponse } from "../wire/types.js";

const UNAUTHORISED = 401;

/** Requests that carry a token; a token that has run out is replaced once for each request. */
export interface Session {
  call<T>(request: (token: string) => Promise<FinalAnswer<T>>): Promise<FinalAnswer<T>>;
}

/** Opens a session at the first request. `open` rejects when the gateway refuses. */
export function session(open: () => Promise<SessionResponse>): Session {
  let current: Promise<SessionResponse> | null = null;
  const held = (): Promise<SessionResponse> => {
    current ??= open().catch((thrown) => {
      current = null;
      throw thrown;
    });
    return current;
  };
  return {
    async call(request) {
      const used = held();
      const answer = await request((await used).token);
      if (answer.kind !== "refused" || answer.status !== UNAUTHORISED) return answer;
      // Another request may have replaced it already.
      if (current === used) current = null;
      return request((await held()).token);
    },
  };
}
