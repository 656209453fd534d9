/** Measures what a core can do: arithmetic in registers alone, and reading alone. */
import { fromHex } from "../../../client/src/engine/bytes.js";
import { instantiate } from "../../../client/src/engine/instance.js";
import { PEAKS } from "../../../client/src/probe/modules.js";
import { now } from "../../../client/src/timing/clock.js";
import { callsPerSample } from "../../../client/src/timing/samples.js";
import { type Sliceable, warmUp } from "../../../client/src/timing/warmup.js";
import type { Entrant } from "./contestant.js";

/** About 2 ms on a fast core: as long as a kernel of the paper, so as likely to be disturbed. */
const ITERATIONS = 1 << 18;

interface Loop extends Sliceable {
  runAll(): void;
}

/** A loop in its optimised tier. */
export function loopEntrant(name: string, loop: Loop, flops: number, stepMs: number): Entrant {
  const limits = { stepMs, patienceMs: 25, limitMs: 300, deadlineMs: now() + 60_000 };
  const warm = warmUp(loop, limits);
  if (warm.kind === "late") throw new Error(`${name} did not warm up`);
  const timed = { calls: callsPerSample(warm.callMs, stepMs), call: loop.runAll };
  return { name, threads: 1, flops, difference: null, timed, dispose: () => undefined };
}

/** The register-only limit with and without fused multiply-add, as the client's probe has it. */
export function registerLimits(memory: WebAssembly.Memory, stepMs: number): readonly Entrant[] {
  const settings = [
    { name: "limit-fma", ...PEAKS.fma },
    { name: "limit-base", ...PEAKS.mulAdd },
  ];
  return settings.map(({ name, body, flops }) => {
    const module = new WebAssembly.Module(fromHex(body));
    const loop = instantiate(module, memory, [0], ITERATIONS);
    return loopEntrant(name, loop, flops * ITERATIONS, stepMs);
  });
}
