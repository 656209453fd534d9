/**
 * Has the browser optimise a model's kernels before its first run. Engines start in baseline code, 5 to
 * 11 times slower, and optimise a function on other threads once it has run for a while. V8 measures
 * that in bytes of code: what a loop jumps back over, and at each return all of the function. So calls of
 * an empty range, which compute nothing, bring it about in 0.3 ms, where the kernel's work takes 2.5 ms.
 */
import { now } from "../../timing/clock.js";
import type { KernelWire } from "../../wire/types.js";
import type { Ready } from "./dispatch.js";

/** V8 (Chromium 156) optimises a kernel after 5 to 8.4 MB of its own bytes; baseline code has 2 to 3 times as many. */
const CALLED_BYTES = 9e6;
/** Kernels of less than 2 kB would need more calls; they run for too short a time to matter. */
const MOST_CALLS = 4500;
/** Limit for a kernel: those that fill their scratch do so in empty calls, too; its loops count. */
const MOST_MS = 2.5;
/** The clock is read once in so many calls. */
const CALLS = 64;

/** Warms kernels up in the order of first use; nothing may run yet, as scratch is written. */
export function warmUp(
  calls: readonly Pick<Ready, "task" | "main" | "words">[],
  kernels: readonly Pick<KernelWire, "sha256" | "size_bytes">[],
): void {
  const bytes = new Map(kernels.map((kernel) => [kernel.sha256, kernel.size_bytes]));
  const firsts = new Map(calls.map((call) => [call.task.artifact, call] as const));
  for (const [artifact, { main, words }] of firsts) {
    const times = Math.min(MOST_CALLS, CALLED_BYTES / (bytes.get(artifact) ?? 1));
    // Put together once: arguments of their own for each call were 15 MB of garbage.
    const empty = [...words, 0, 0];
    try {
      main(...empty); // The baseline code is made now.
      const endMs = now() + MOST_MS;
      for (let i = 1; i < times && (i % CALLS > 0 || now() < endMs); i++) main(...empty);
    } catch {
      // The run that comes to it is told which kernel traps.
    }
  }
}
