/**
 * Whole networks on WebGPU: our runtime beside onnxruntime-web, each in a worker, in turns. It reads
 * `job.json` beside the page; `kernelzooGpuModels.run()` answers what was measured.
 */

import { openDevice } from "../../../client/src/backend/webgpu/device.js";
import { sentence } from "../../../client/src/engine/error.js";
import type { KernelZoo } from "../../../client/src/sdk/zoo.js";
import { now } from "../../../client/src/timing/clock.js";
import type { Profile } from "./decode/request.js";
import { type Engine, type Network, relativeDifference, valuesOf } from "./models/network.js";
import { openOnnxRuntimeOnGpu } from "./models/peers.js";
import { BareModel, type Reading, type RunParts } from "./models/run-parts.js";
import { type Tunable, tuned } from "./models/tuned.js";
import { pageAnswer, releasesOf } from "./webgpu/page-answer.js";

interface GpuNetwork extends Tunable, Network {
  readonly name: string;
  readonly zoo: string;
  readonly flops: number;
  /** The form in which our weights are stored. */
  readonly weights: string;
  /** The type of values in memory. */
  readonly dtype: string;
}

interface Job {
  readonly commit: string;
  readonly rounds: number;
  readonly tuneMs: number;
  readonly networks: readonly GpuNetwork[];
}

interface TimedEngine {
  readonly name: string;
  readonly samplesMs: readonly number[];
  /** Per run, of several that are under way at once. */
  readonly overlappedMs: readonly number[];
  /** Runs that write to the memory of the last one's outputs. */
  readonly intoMs: readonly number[];
  readonly difference: number;
}

/** An engine that may be handed the outputs of its last run. */
interface GpuEngine extends Engine {
  readonly into?: () => Promise<void>;
}

const RUNS = 9;
const REST_MS = 500;
const WARM_RUNS = 5;

async function openOurs({ zoo: file, inputs }: GpuNetwork): Promise<GpuEngine> {
  const sdk = new URL("client/sdk.js", document.baseURI).href;
  const { KernelZoo: Zoo }: { KernelZoo: typeof KernelZoo } = await import(sdk);
  // A file says itself that it is for a GPU.
  const zoo = await Zoo.open(new URL("zoo/bundle.json", document.baseURI), { backend: "wasm" });
  const model = await zoo.model(file);
  const feeds = await valuesOf(inputs);
  const run = async () => (await model.run(feeds)) as Engine["outputs"];
  const outputs = await run();
  console.log(`${model.plan.target} ${(await model.profile({ runs: 1 })).table()}`);
  let last = await model.run(feeds);
  const into = async (): Promise<void> => {
    last = await model.run(feeds, { into: last });
  };
  const dispose = async (): Promise<void> => {
    await model.dispose();
    zoo.dispose();
  };
  return { name: "kernelzoo", threads: 1, outputs, run, into, dispose };
}

async function overlapped(engine: Engine): Promise<number> {
  const start = now();
  await Promise.all(Array.from({ length: RUNS }, () => engine.run()));
  return (now() - start) / RUNS;
}

/** Runs that take the memory of the last one's outputs, when nothing else is left to be cleared. */
async function filled({ into }: GpuEngine, runs: number): Promise<readonly number[]> {
  const samples: number[] = [];
  if (into === undefined) return samples;
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  for (let i = -WARM_RUNS; i < runs; i++) {
    const start = now();
    await into();
    if (i >= 0) samples.push(now() - start);
  }
  return samples;
}

async function contest(engines: readonly GpuEngine[], network: GpuNetwork, rounds: number) {
  const right = await valuesOf(network.outputs);
  const samples = engines.map((): number[] => []);
  const together = engines.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < engines.length; turn++) {
      const at = (round + turn) % engines.length;
      const engine = engines[at] as GpuEngine;
      await engine.run(); // The GPU's clock has fallen in the other's turn.
      for (let i = 0; i < 3; i++) {
        const start = now();
        await engine.run();
        samples[at]?.push(now() - start);
      }
      // onnxruntime-web refuses a second run beside a first.
      if (engine.name === "kernelzoo") together[at]?.push(await overlapped(engine));
    }
  }
  const timed: TimedEngine[] = [];
  for (const [i, engine] of engines.entries()) {
    const intoMs = await filled(engine, 3 * rounds);
    timed.push({
      name: engine.name,
      samplesMs: samples[i] ?? [],
      overlappedMs: together[i] ?? [],
      intoMs,
      difference: relativeDifference(await engine.run(), right),
    });
    await engine.dispose();
  }
  return timed;
}

async function measured(network: GpuNetwork, job: Job) {
  const failures: Record<string, string> = {};
  const device = await openDevice();
  const times = await tuned(device, network, job.tuneMs);
  device.dispose();
  const engines: GpuEngine[] = [];
  const opened = {
    kernelzoo: () => openOurs(network),
    "onnxruntime-web": () => openOnnxRuntimeOnGpu(network),
  };
  for (const [name, open] of Object.entries(opened)) {
    try {
      engines.push(await open());
    } catch (thrown) {
      failures[name] = sentence(thrown);
    }
  }
  const timed = await contest(engines, network, job.rounds);
  let parts: readonly RunParts[] = [];
  let readings: readonly Reading[] = [];
  let profile: Profile | null = null;
  let calls = 0;
  try {
    const bare = await BareModel.load(new URL(network.zoo, document.baseURI).href);
    calls = bare.calls;
    parts = await bare.parts();
    readings = await bare.readings();
    profile = await bare.profile();
    bare.dispose();
  } catch (thrown) {
    failures.parts = sentence(thrown);
  }
  const { name, flops, weights, dtype } = network;
  return { name, flops, weights, dtype, calls, times, timed, parts, readings, profile, failures };
}

async function run() {
  const job = (await (await fetch("job.json")).json()) as Job;
  const contests = [];
  for (const network of job.networks) {
    console.log(`${network.name} begins at ${now().toFixed(0)} ms`);
    contests.push(await measured(network, job));
  }
  const engines = contests.flatMap(({ timed }) => timed.map(({ name }) => name));
  return { ...(await pageAnswer(job.commit, releasesOf(engines))), contests };
}

Object.assign(globalThis, { kernelzooGpuModels: { run } });
