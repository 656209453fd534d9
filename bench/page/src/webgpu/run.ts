/** All cases of a job, one after the other: what fails is said, and the rest goes on. */

import { maxDifference } from "../../../../client/src/engine/compare.js";
import { sentence } from "../../../../client/src/engine/error.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { Task } from "../peers/problem.js";
import { adapter, deviceOf, factsOf } from "./adapter.js";
import { contest, type GpuEntrant } from "./entrant.js";
import { fmaLimit, readingLimit } from "./limit.js";
import { onnxRuntimePeer, setOnnxRuntime } from "./onnxruntime.js";
import { type Peer, peerEntrant } from "./peer.js";
import { taskOf } from "./problem.js";
import { sampledDifference } from "./reference.js";
import type { GpuAnswer, GpuCase, GpuContest, GpuJob } from "./request.js";
import { listen } from "./tape.js";
import { setTensorFlow, tensorFlowPeer } from "./tensorflow.js";

const PEERS: Readonly<Record<string, (task: Task) => Promise<Peer>>> = {
  tfjs: tensorFlowPeer,
  ort: onnxRuntimePeer,
};

/** What takes part in one case; collected as it is found. */
interface Field {
  readonly case: GpuCase;
  readonly task: Task;
  readonly entrants: GpuEntrant[];
  readonly failures: Record<string, string>;
  reference: Float32Array | null;
}

async function addPeer(field: Field, name: string): Promise<void> {
  const peer = await (PEERS[name] as (typeof PEERS)[string])(field.task);
  const output = await peer.output();
  if (field.reference === null) {
    const off = sampledDifference(field.task, output);
    if (!(off <= field.case.tolerance)) throw new Error(`its output is wrong by ${off}`);
    field.reference = output;
  }
  if (output.length !== field.reference.length) throw new Error("its output has another length");
  const difference = maxDifference(output, field.reference);
  field.entrants.push(await peerEntrant(name, peer, field.case.flops, difference));
}

async function addPeers(field: Field): Promise<void> {
  for (const name of Object.keys(PEERS)) {
    try {
      await addPeer(field, name);
    } catch (thrown) {
      field.failures[name] = sentence(thrown);
    }
  }
}

async function addLimits(field: Field, device: GPUDevice): Promise<void> {
  field.entrants.push(await fmaLimit(device, "f32"));
  const { readsOnce } = field.case;
  const read = readsOnce === null ? undefined : field.task.inputs[readsOnce];
  if (read !== undefined) field.entrants.push(await readingLimit(device, read.data));
}

async function hold(device: GPUDevice, given: GpuCase, job: GpuJob): Promise<GpuContest> {
  const task = taskOf(given);
  const field: Field = { case: given, task, entrants: [], failures: {}, reference: null };
  await addPeers(field);
  await addLimits(field, device);
  const samples = await contest(field.entrants, job.rounds, job.roundsLimitMs);
  for (const entrant of field.entrants) entrant.dispose();
  const results = field.entrants.map((entrant, i) => {
    const { name, flops, bytes, dispatches, difference, profiledNs } = entrant;
    const { kernelNs = [], callNs = [] } = samples[i] ?? {};
    return { name, flops, bytes, dispatches, difference, profiledNs, kernelNs, callNs };
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
  try {
    return await hold(device, given, job);
  } catch (thrown) {
    return { case: given.name, results: [], failures: { all: sentence(thrown) } };
  }
}

/** `say` is told of each case as it begins. Cases that find no time left are left out. */
export async function run(say: (line: string) => void): Promise<GpuAnswer> {
  const job = (await (await fetch("job.json")).json()) as GpuJob;
  const begun = now();
  const { found, device } = await start();
  const contests: GpuContest[] = [];
  for (const given of job.cases) {
    if (now() - begun > job.limitMs) break;
    say(`${((now() - begun) / 1000).toFixed(0)} s: ${given.name}`);
    contests.push(await answered(device, given, job));
  }
  return {
    date: new Date().toISOString(),
    browser: navigator.userAgent,
    adapter: factsOf(found),
    clock: device.features.has("timestamp-query") ? "timestamp" : "wall",
    contests,
  };
}
