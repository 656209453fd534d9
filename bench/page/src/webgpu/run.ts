/** All cases of a job, one after the other: what fails is said, and the rest goes on. */

import { maxDifference } from "../../../../client/src/engine/compare.js";
import { sentence } from "../../../../client/src/engine/error.js";
import { adapter, deviceOf, factsOf } from "./adapter.js";
import { contest, type GpuEntrant } from "./entrant.js";
import { fmaLimit, readingLimit } from "./limit.js";
import { onnxRuntimePeer, setOnnxRuntime } from "./onnxruntime.js";
import { type Peer, peerEntrant } from "./peer.js";
import { type GpuProblem, problemOf } from "./problem.js";
import { sampledDifference } from "./reference.js";
import type { GpuAnswer, GpuCase, GpuContest, GpuJob } from "./request.js";
import { listen } from "./tape.js";
import { setTensorFlow, tensorFlowPeer } from "./tensorflow.js";

const PEERS: Readonly<Record<string, (problem: GpuProblem) => Promise<Peer>>> = {
  tfjs: tensorFlowPeer,
  ort: onnxRuntimePeer,
};

/** What takes part in one case; collected as it is found. */
interface Field {
  readonly entrants: GpuEntrant[];
  readonly failures: Record<string, string>;
  reference: Float32Array | null;
}

async function addPeer(field: Field, problem: GpuProblem, name: string): Promise<void> {
  const peer = await (PEERS[name] as (typeof PEERS)[string])(problem);
  const output = await peer.output();
  if (field.reference === null) {
    const off = sampledDifference(problem, output);
    if (!(off <= problem.case.tolerance)) throw new Error(`its output is wrong by ${off}`);
    field.reference = output;
  }
  const difference = maxDifference(output, field.reference);
  field.entrants.push(peerEntrant(name, peer, problem.case, difference));
}

async function addPeers(field: Field, problem: GpuProblem): Promise<void> {
  for (const name of Object.keys(PEERS)) {
    try {
      await addPeer(field, problem, name);
    } catch (thrown) {
      field.failures[name] = sentence(thrown);
    }
  }
}

async function addLimits(field: Field, problem: GpuProblem, device: GPUDevice): Promise<void> {
  field.entrants.push(await fmaLimit(device, "f32"));
  const { readsOnce } = problem.case;
  const read = readsOnce === null ? undefined : problem.inputs[readsOnce];
  if (read !== undefined) field.entrants.push(await readingLimit(device, read.data));
}

async function hold(device: GPUDevice, given: GpuCase, job: GpuJob): Promise<GpuContest> {
  const problem = problemOf(given);
  const field: Field = { entrants: [], failures: {}, reference: null };
  await addPeers(field, problem);
  await addLimits(field, problem, device);
  const samples = await contest(field.entrants, job.rounds, job.roundsLimitMs);
  for (const entrant of field.entrants) entrant.dispose();
  const results = field.entrants.map(({ name, flops, bytes, difference }, i) => {
    const { kernelNs = [], callNs = [] } = samples[i] ?? {};
    return { name, flops, bytes, difference, dispatches: 0, kernelNs, callNs };
  });
  return { case: given.name, results, failures: field.failures };
}

async function start(): Promise<{ found: GPUAdapter; device: GPUDevice }> {
  listen();
  setOnnxRuntime();
  await setTensorFlow();
  const found = await adapter();
  return { found, device: await deviceOf(found) };
}

async function answered(device: GPUDevice, given: GpuCase, job: GpuJob): Promise<GpuContest> {
  console.log(`kernelzoo: ${given.name}`);
  try {
    return await hold(device, given, job);
  } catch (thrown) {
    return { case: given.name, results: [], failures: { all: sentence(thrown) } };
  }
}

export async function run(): Promise<GpuAnswer> {
  const job = (await (await fetch("job.json")).json()) as GpuJob;
  const { found, device } = await start();
  const contests: GpuContest[] = [];
  for (const given of job.cases) contests.push(await answered(device, given, job));
  return {
    date: new Date().toISOString(),
    browser: navigator.userAgent,
    adapter: factsOf(found),
    clock: device.features.has("timestamp-query") ? "timestamp" : "wall",
    contests,
  };
}
