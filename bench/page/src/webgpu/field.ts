/**
 * Lets peers, our finalists and limits take part in one case. What fails is told in `failures` and
 * left out.
 */

import { storedBytes } from "../../../../client/src/backend/webgpu/buffers.js";
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { maxDifference } from "../../../../client/src/engine/difference.js";
import { sentence } from "../../../../client/src/engine/error.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { Task } from "../peers/problem.js";
import { contest, type GpuEntrant, type GpuSamples } from "./entrant.js";
import { fmaLimit, memoryLimit } from "./limit.js";
import { onnxRuntimePeer } from "./onnxruntime.js";
import { fastest, type GpuStand, kernelEntrant, setUp, tearDown, tune } from "./ours.js";
import { type Peer, peerEntrant } from "./peer.js";
import { sampledDifference, taskOf } from "./reference.js";
import type { GpuCase, GpuContest, GpuJob, GpuScreened } from "./request.js";
import { tensorFlowPeer } from "./tensorflow.js";

const PEERS: Readonly<Record<string, (task: Task) => Promise<Peer>>> = {
  tfjs: tensorFlowPeer,
  ort: onnxRuntimePeer,
};

const FINALISTS = 3;

/** onnxruntime-web also sums f16 in f16, so its outputs are as far off and judge no others. */
const PEER_SLACK = 4;

/** Collected as it is found. `expected` is the first output that is right, of a peer but for f16. */
interface Field {
  readonly case: GpuCase;
  readonly task: Task;
  readonly entrants: GpuEntrant[];
  readonly failures: Record<string, string>;
  screened: readonly GpuScreened[];
  expected: Float32Array | null;
}

const wrong = (off: number): Error => new Error(`its output is wrong by ${off}`);

/** The output, once entries of it were found right. */
function right({ case: { lease }, task }: Field, output: Float32Array): Float32Array {
  const off = sampledDifference(task, output);
  if (!(off <= lease.tolerance)) throw wrong(off);
  return output;
}

async function addPeer(field: Field, name: string): Promise<void> {
  const peer = await (PEERS[name] as (typeof PEERS)[string])(field.task);
  const output = await peer.output();
  if (field.task.isF16) {
    const off = sampledDifference(field.task, output);
    if (!(off <= PEER_SLACK * field.case.lease.tolerance)) throw wrong(off);
    field.entrants.push(await peerEntrant(name, peer, field.case.lease.flops, null));
    return;
  }
  field.expected ??= right(field, output);
  if (output.length !== field.expected.length) throw new Error("its output has another length");
  const difference = maxDifference(output, field.expected);
  field.entrants.push(await peerEntrant(name, peer, field.case.lease.flops, difference));
}

async function addOurs(field: Field, stand: GpuStand, tuneLimitMs: number): Promise<void> {
  field.screened = await tune(stand, field.case.configs, now() + tuneLimitMs);
  const output = stand.reference.output as Float32Array;
  if (field.expected === null) field.expected = right(field, output);
  for (const candidate of fastest(field.screened, FINALISTS)) {
    field.entrants.push(await kernelEntrant(stand, candidate, field.expected));
  }
}

async function addLimits(field: Field, { open, reference }: GpuStand): Promise<void> {
  field.entrants.push(await fmaLimit(open, reference.timer));
  const { readsOnce, moves } = field.case;
  const bytes = field.case.lease.reference.tensors.map(storedBytes);
  const read = readsOnce === null ? undefined : bytes[readsOnce];
  if (read !== undefined) field.entrants.push(await memoryLimit(open, reference.timer, read));
  const written = moves ? bytes.at(-1) : undefined;
  if (written !== undefined) {
    field.entrants.push(await memoryLimit(open, reference.timer, written, { copies: true }));
  }
}

async function attempt(field: Field, name: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    field.failures[name] = sentence(thrown);
  }
}

async function answered(field: Field, rounds: GpuJob["rounds"]): Promise<GpuContest> {
  const { lease, compileMs } = field.case;
  const samples = await contest(field.entrants, rounds);
  const results = field.entrants.map((entrant, i) => {
    const { name, flops, bytes, dispatches, profiledNs, difference } = entrant;
    const own = samples[i] as GpuSamples;
    return { name, flops, bytes, dispatches, profiledNs, difference, ...own };
  });
  const { screened, failures } = field;
  const { workload, tolerance } = lease;
  return { case: lease.lease, workload, tolerance, compileMs, screened, results, failures };
}

/** Tunes one case and holds its contest. */
export async function hold(open: OpenDevice, given: GpuCase, job: GpuJob): Promise<GpuContest> {
  const task = taskOf(given.lease);
  const field: Field = {
    ...{ case: given, task, entrants: [], failures: {} },
    ...{ screened: [], expected: null },
  };
  const peers = task.inputs.some(({ words }) => words) ? [] : Object.keys(PEERS);
  for (const name of peers) await attempt(field, name, () => addPeer(field, name));
  const stand = await setUp(open, given.lease);
  try {
    await attempt(field, "ours", () => addOurs(field, stand, job.tuneLimitMs));
    await addLimits(field, stand);
    return await answered(field, job.rounds);
  } finally {
    for (const entrant of field.entrants) entrant.dispose();
    tearDown(stand);
  }
}
