/** Sessions with the gateway, and the proof of work that it may ask of a new identity. */
import { sha256Hex } from "../engine/sha256.js";
import type { FinalAnswer } from "../gateway/request.js";
import type { SessionResponse } from "../wire/types.js";

/** These numbers are the same as in services/gateway/attestation/proof_of_work.py. */
const PIECES = 16;
const PIECE_BITS = 4;
const SLICE_MS = 20;

/**
 * The challenge and a number for each of its pieces, as the gateway takes them. Works in slices,
 * with a `pause` between them.
 */
export async function solved(challenge: string, pause: () => Promise<void>): Promise<string> {
  const zeroBits = Number.parseInt(challenge, 10) - PIECE_BITS;
  const encoder = new TextEncoder();
  const numbers: number[] = [];
  let sliceEndsMs = performance.now() + SLICE_MS;
  for (let piece = 0; piece < PIECES; piece++) {
    let number = 0;
    while (zeros(sha256Hex(encoder.encode(`${challenge}:${piece}:${number}`))) < zeroBits) {
      number++;
      if (performance.now() < sliceEndsMs) continue;
      await pause();
      sliceEndsMs = performance.now() + SLICE_MS;
    }
    numbers.push(number);
  }
  return [challenge, ...numbers].join(",");
}

/** Zero bits before the first that is not, of the first 32. */
const zeros = (hex: string): number => Math.clz32(Number.parseInt(hex.slice(0, 8), 16));

const UNAUTHORISED = 401;
/**
 * The next session is opened after this share of one's time, so that no request carries a token
 * that ends.
 */
const RENEWED_AT = 0.75;

/**
 * Makes requests with a token. A request that is refused for its token is repeated once with a new
 * one.
 */
export interface Session {
  call<T>(request: (token: string) => Promise<FinalAnswer<T>>): Promise<FinalAnswer<T>>;
}

/** `renewAtMs`: by the clock of `session`; unknown until it is open. */
interface OpenSession {
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
  let current: OpenSession | null = null;
  const next = (): OpenSession => {
    const held: OpenSession = { opened: open(), renewAtMs: Number.POSITIVE_INFINITY };
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
  const held = (): OpenSession => {
    if (current === null || now() >= current.renewAtMs) current = next();
    return current;
  };
  return {
    async call(request) {
      const used = held();
      const answer = await request((await used.opened).token);
      if (answer.kind !== "refused" || answer.status !== UNAUTHORISED) return answer;
      // The session ended while the device slept, or the device has changed its network. Another
      // request may have replaced it already.
      if (current === used) current = null;
      return request((await held().opened).token);
    },
  };
}
