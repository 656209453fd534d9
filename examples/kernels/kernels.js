/**
 * Kernels from a zoo: checked, and timed beside the default kernel, beside the frameworks where there
 * are some, and against the limit of the core or the GPU.
 *
 * `?zoo=` names the zoo, `?workload=` a workload (several times for several), `?target=wasm` or
 * `webgpu` what to run on instead of what the zoo advises, `?frameworks=` a module to compare with.
 * The outcomes are at `globalThis.kernelzooResults`, or `globalThis.kernelzooError` says why there
 * are none.
 */
import { openZoo } from "../zoo.js";
import { check } from "./check.js";
import { showError, showResult, showStatus } from "./show.js";
import { bestTimes } from "./timing.js";

const MATMUL = "matmul:f32:m384k768n768";
const CHECKED_ENTRIES = 256;
const ROUNDS = 25;

const parameters = new URLSearchParams(location.search);
const backend = parameters.get("target") ?? "auto";
const asked = parameters.getAll("workload");
const workloads = asked.length > 0 ? asked : [MATMUL];
const frameworksUrl = parameters.get("frameworks");

function fillAtRandom(view) {
  for (let i = 0; i < view.length; i++) view[i] = Math.random() - 0.5;
}

function refuseOther({ info }) {
  if (backend === "auto" || info.backend === backend) return;
  throw new Error(`The kernel does not run on ${backend}: ${info.backendReason}`);
}

/** The same workload in other engines, on the same inputs; none on a GPU. */
async function frameworksOf(key, { info, inputs, shapes, gpu }, output) {
  if (frameworksUrl === null || gpu !== null) return [];
  const { frameworks } = await import(new URL(frameworksUrl, location.href).href);
  const named = Object.entries(inputs).map(([name, view]) => ({
    name,
    shape: shapes[name],
    data: view.slice(),
  }));
  const [last] = Object.keys(shapes).slice(-1);
  return frameworks(key, info.flops, named, { name: last, shape: shapes[last], data: output });
}

async function compare(zoo, key, measureLimit) {
  const kernel = await zoo.kernel(key);
  refuseOther(kernel);
  const usual = await zoo.kernel(key, { use: "fallback" });
  for (const view of Object.values(kernel.inputs)) fillAtRandom(view);

  showStatus(`${key}: checking the output…`);
  const output = (await kernel.runAsync()).slice();
  const checked = check(key, kernel, output, CHECKED_ENTRIES);
  // Two timings of one kernel would differ by noise alone.
  const isSame = kernel.info.sha256 === usual.info.sha256;
  if (!isSame) await usual.runAsync(kernel.inputs);
  const others = await frameworksOf(key, kernel, output);

  showStatus(`${key}: timing…`);
  // Before and after: the clock rate of a core moves. A GPU's limit was probed.
  const limitBefore = await measureLimit(kernel);
  const compared = isSame ? others : [...others, usual];
  const [zooMs, ...timesMs] = await bestTimes([kernel, ...compared], ROUNDS);
  const usualMs = isSame ? zooMs : timesMs.at(-1);
  const limit = Math.max(limitBefore, await measureLimit(kernel));
  const { workload, level, state, evidence, flops, manifestMs, fallbackReason } = kernel.info;
  const gflops = (ms) => flops / ms / 1e6;
  return {
    workload,
    backend: kernel.info.backend,
    level,
    state,
    votes: evidence?.ballots ?? 0,
    same_kernel: isSame,
    manifestMs,
    fallback_reason: fallbackReason,
    default_gflops: gflops(usualMs),
    zoo_gflops: gflops(zooMs),
    limit_gflops: limit,
    speedup: usualMs / zooMs,
    frameworks: others.map(({ name, difference }, i) => ({
      name,
      gflops: gflops(timesMs[i]),
      speedup: timesMs[i] / zooMs,
      difference,
    })),
    ...checked,
  };
}

async function main() {
  const { sdk, zoo } = await openZoo({ backend });
  const measureLimit = async ({ gpu }) =>
    gpu === null ? sdk.measurePeakGflops() : zoo.gpuPeakGflops;
  const results = [];
  for (const key of workloads) {
    results.push(await compare(zoo, key, measureLimit));
    showResult(results.at(-1));
  }
  showStatus("");
  globalThis.kernelzooResults = results;
}

main().catch((error) => {
  globalThis.kernelzooError = error.message;
  showError(error.message);
});
