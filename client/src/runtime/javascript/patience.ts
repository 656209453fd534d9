/** Waits for kernels in JavaScript, which a zoo compiles for the first page that asks for them. */
import type { Answered } from "../request.js";

const WAIT_MS = 500;
const TRIES = 40;

/** An answer without a missing kernel, or the last one. Rejects as `ask` does. */
export async function patiently(ask: () => Promise<Answered>): Promise<Answered> {
  for (let tries = 1; ; tries++) {
    const answered = await ask();
    if (answered.answer.missing.length === 0 || tries === TRIES) return answered;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}
