import type { Answer } from "./answer.js";
import { backoffMs } from "./backoff.js";

/** An answer that will not change by asking again. */
export type FinalAnswer<T> = Exclude<Answer<T>, { readonly kind: "unavailable" }>;

export interface RetryPorts {
  sleep(ms: number): Promise<void>;
  /** Told before each wait. */
  waiting(detail: string, retryInMs: number): void;
}

/** Asks until the gateway answers; waits as it says, or longer each time. */
export async function retried<T>(
  request: () => Promise<Answer<T>>,
  ports: RetryPorts,
): Promise<FinalAnswer<T>> {
  for (let attempt = 0; ; attempt++) {
    const answer = await request();
    if (answer.kind !== "unavailable") return answer;
    const wait = Math.max(answer.retryAfterMs, backoffMs(attempt));
    ports.waiting(answer.detail, wait);
    await ports.sleep(wait);
  }
}
