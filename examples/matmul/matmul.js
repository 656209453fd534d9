/**
 * One matrix product with a kernel from a zoo: checked, timed against the default kernel and
 * against the limit of the core. `?zoo=` names the zoo; the outcome is at
 * `globalThis.kernelzooResult`, or `globalThis.kernelzooError` when there is none.
 */
import { check } from "./check.js";
import { showError, showResult, showStatus } from "./show.js";
import { bestTimes } from "./timing.js";

const WORKLOAD = "matmul:f32:m384k768n768";
const CHECKED_ENTRIES = 256;
const ROUNDS = 25;

const zooUrl = new URLSearchParams(location.search).get("zoo") ?? "http://127.0.0.1:8787";

async function loadSdk() {
  try {
    return await import(new URL("/client/sdk.js", zooUrl).href);
  } catch (cause) {
    const remedy = "Start one with `kernelzoo up`, or name another: ?zoo=https://zoo.example";
    throw new Error(`The zoo at ${zooUrl} does not answer. ${remedy}`, { cause });
  }
}

function fillAtRandom(view) {
  for (let i = 0; i < view.length; i++) view[i] = Math.random() - 0.5;
}

async function main() {
  const { KernelZoo, measurePeakGflops } = await loadSdk();
  const zoo = await KernelZoo.open(zooUrl);
  const kernel = await zoo.kernel(WORKLOAD);
  const usual = await zoo.kernel(WORKLOAD, { use: "fallback" });
  fillAtRandom(kernel.inputs.a);
  fillAtRandom(kernel.inputs.b);

  showStatus("Checking the output…");
  const checked = check(kernel, kernel.run(), CHECKED_ENTRIES);
  usual.run(kernel.inputs);

  showStatus("Timing…");
  // Before and after: the clock rate of a core moves.
  const limitBefore = await measurePeakGflops();
  const [usualMs, zooMs] = await bestTimes([() => usual.run(), () => kernel.run()], ROUNDS);
  const limit = Math.max(limitBefore, await measurePeakGflops());
  const { workload, level, state, evidence, flops, manifestMs, fallbackReason } = kernel.info;
  globalThis.kernelzooResult = {
    workload,
    level,
    state,
    votes: evidence?.ballots ?? 0,
    same_kernel: kernel.info.sha256 === usual.info.sha256,
    manifestMs,
    fallback_reason: fallbackReason,
    default_gflops: flops / usualMs / 1e6,
    zoo_gflops: flops / zooMs / 1e6,
    limit_gflops: limit,
    speedup: usualMs / zooMs,
    ...checked,
  };
  showResult(globalThis.kernelzooResult);
}

main().catch((error) => {
  globalThis.kernelzooError = error.message;
  showError(error.message);
});
