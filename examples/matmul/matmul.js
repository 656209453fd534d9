/**
 * One matrix product with a kernel from a zoo: checked, timed against the default kernel and
 * against the limit of the core or the GPU. `?zoo=` names the zoo, `?target=wasm` or `webgpu` what
 * to run on instead of what the zoo advises. The outcome is at `globalThis.kernelzooResult`, or
 * `globalThis.kernelzooError` when there is none.
 */
import { check } from "./check.js";
import { showError, showResult, showStatus } from "./show.js";
import { bestTimes } from "./timing.js";

const WORKLOAD = "matmul:f32:m384k768n768";
const CHECKED_ENTRIES = 256;
const ROUNDS = 25;

const parameters = new URLSearchParams(location.search);
const zooUrl = parameters.get("zoo") ?? "http://127.0.0.1:8787";
const backend = parameters.get("target") ?? "auto";

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

function refuseOther({ info }) {
  if (backend === "auto" || info.backend === backend) return;
  throw new Error(`The kernel does not run on ${backend}: ${info.backendReason}`);
}

async function main() {
  const { KernelZoo, measurePeakGflops } = await loadSdk();
  const zoo = await KernelZoo.open(zooUrl, { backend });
  const kernel = await zoo.kernel(WORKLOAD);
  refuseOther(kernel);
  const usual = await zoo.kernel(WORKLOAD, { use: "fallback" });
  // Before and after: the clock rate of a core moves. A GPU's limit was probed.
  const measureLimit = async () => (kernel.gpu === null ? measurePeakGflops() : zoo.gpuPeakGflops);
  fillAtRandom(kernel.inputs.a);
  fillAtRandom(kernel.inputs.b);

  showStatus("Checking the output…");
  const checked = check(kernel, await kernel.runAsync(), CHECKED_ENTRIES);
  await usual.runAsync(kernel.inputs);

  showStatus("Timing…");
  const limitBefore = await measureLimit();
  const [usualMs, zooMs] = await bestTimes([usual, kernel], ROUNDS);
  const limit = Math.max(limitBefore, await measureLimit());
  const { workload, level, state, evidence, flops, manifestMs, fallbackReason } = kernel.info;
  globalThis.kernelzooResult = {
    workload,
    backend: kernel.info.backend,
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
