/** All cases of a job, one after the other: what fails is said, and the rest goes on. */

import { DeviceOwner, type OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { sentence } from "../../../../client/src/engine/error.js";
import { now } from "../../../../client/src/timing/clock.js";
import { hold } from "./field.js";
import { onnxRuntimeVersion, setOnnxRuntime } from "./onnxruntime.js";
import { pageAnswer } from "./page-answer.js";
import type { GpuAnswer, GpuCase, GpuContest, GpuJob } from "./request.js";
import { listen } from "./tape.js";
import { setTensorFlow, tensorFlowVersion } from "./tensorflow.js";

async function attempted(open: OpenDevice, given: GpuCase, job: GpuJob): Promise<GpuContest> {
  try {
    return await hold(open, given, job);
  } catch (thrown) {
    const { lease, workload, tolerance } = given.lease;
    const named = { case: lease, workload, tolerance, compileMs: given.compileMs };
    return { ...named, screened: [], results: [], failures: { all: sentence(thrown) } };
  }
}

/** Cases that find no time left are left out. */
async function contests(job: GpuJob, say: (line: string) => void): Promise<readonly GpuContest[]> {
  const begun = now();
  const devices = new DeviceOwner();
  const held: GpuContest[] = [];
  for (const given of job.cases) {
    if (now() - begun > job.limitMs) break;
    say(`${((now() - begun) / 1000).toFixed(0)} s: ${given.lease.lease}`);
    held.push(await attempted(await devices.device(), given, job));
  }
  devices.dispose();
  return held;
}

/** `say` is told of each case as it begins. */
export async function run(say: (line: string) => void): Promise<GpuAnswer> {
  const job = (await (await fetch("job.json")).json()) as GpuJob;
  listen();
  setOnnxRuntime();
  await setTensorFlow();
  const peers = { onnxruntime_web: onnxRuntimeVersion(), tfjs_webgpu: tensorFlowVersion() };
  return { ...(await pageAnswer(job.commit, peers)), contests: await contests(job, say) };
}
