/** Checks the parts of the WebGPU engine that need no GPU. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TargetRotation } from "../src/agent/loop.js";
import type { AgentPorts } from "../src/agent/work.js";
import { type Launch, launches, planSlices, runInSlices } from "../src/backend/webgpu/binding.js";
import { padded } from "../src/backend/webgpu/buffers.js";
import { noActivity, raiseClock } from "../src/backend/webgpu/clock.js";
import type { DeviceOwner, OpenDevice } from "../src/backend/webgpu/device.js";
import { deviceDescriptor, gpuFeatures } from "../src/backend/webgpu/features.js";
import { limiter } from "../src/backend/webgpu/pipeline-queue.js";
import type { Program } from "../src/backend/webgpu/program.js";
import { shapeOf } from "../src/backend/webgpu/sample.js";
import { submissionsOf } from "../src/backend/webgpu/submissions.js";
import { quantumNs, restingTimer } from "../src/backend/webgpu/timer.js";
import { gpuLevelsOf } from "../src/device/gpu-profile.js";
import { UNDISTURBED } from "../src/measurer/measurement.js";
import type { GpuBench } from "../src/measurer/webgpu/bench.js";
import {
  type GpuReference,
  gpuInstrument,
  measureGpu,
  measureGpuAgain,
} from "../src/measurer/webgpu/instrument.js";
import { GPU_PRIMITIVES, GPU_SETTINGS } from "../src/probe/gpu-modules.js";
import { chooseTarget, type GpuSide } from "../src/sdk/backend.js";
import type { KernelWire, ManifestEntry, ServedKernel } from "../src/wire/types.js";
import { tinyKernel, tinyLease } from "./kernels.js";

const MOST = 65_535;
const KIB = 1024;
const MIB = KIB * KIB;

const DEFAULT_LIMITS = {
  maxStorageBufferBindingSize: 128 * MIB,
  maxBufferSize: 256 * MIB,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupStorageSize: 16 * KIB,
};

function adapter(limits: Partial<typeof DEFAULT_LIMITS>, ...features: string[]) {
  const all = { ...DEFAULT_LIMITS, ...limits };
  return { features: new Set(features), limits: all } as unknown as GPUAdapter;
}

test("an adapter without more than the defaults has no features", () => {
  assert.deepEqual(gpuFeatures(adapter({})), []);
  assert.deepEqual(deviceDescriptor(adapter({})).requiredLimits, {
    maxStorageBufferBindingSize: 128 * MIB,
    maxBufferSize: 256 * MIB,
    maxStorageBuffersPerShaderStage: 8,
  });
});

test("an adapter has each step that it reaches, and a device is asked for the highest", () => {
  const large = adapter(
    {
      maxStorageBufferBindingSize: 2048 * MIB - 4,
      maxBufferSize: 2 ** 63,
      maxStorageBuffersPerShaderStage: 10,
      maxComputeInvocationsPerWorkgroup: 1024,
      maxComputeWorkgroupSizeX: 1024,
      maxComputeWorkgroupStorageSize: 48 * KIB,
    },
    "subgroups",
    "timestamp-query",
    "depth-clip-control",
  );
  assert.deepEqual(gpuFeatures(large), [
    "binding-256m",
    "invocations-1024",
    "invocations-512",
    "subgroups",
    "workgroup-memory-32k",
    "workgroup-memory-48k",
  ]);
  const { requiredFeatures, requiredLimits } = deviceDescriptor(large);
  assert.deepEqual(requiredFeatures, ["subgroups", "timestamp-query"]);
  assert.deepEqual(requiredLimits, {
    maxStorageBufferBindingSize: 2048 * MIB - 4,
    maxBufferSize: 4096 * MIB - 4,
    maxStorageBuffersPerShaderStage: 10,
    maxComputeInvocationsPerWorkgroup: 1024,
    maxComputeWorkgroupSizeX: 1024,
    maxComputeWorkgroupStorageSize: 48 * KIB,
  });
});

test("dot products of bytes are an extension of WGSL, which the browser has", () => {
  const language = new Set(["packed_4x8_integer_dot_product"]);
  assert.deepEqual(gpuFeatures(adapter({}), language), ["dot-of-bytes"]);
  assert.deepEqual(gpuFeatures(adapter({}), new Set(["pointer_composite_access"])), []);
});

test("a step of which one limit falls short is not reached", () => {
  const narrow = adapter({ maxComputeInvocationsPerWorkgroup: 1024 });
  assert.deepEqual(gpuFeatures(narrow), []);
});

/** The workgroups of each dispatch that launches cover, in order. */
function covered(plan: ReturnType<typeof planSlices>, made: readonly Launch[]): number[][] {
  return plan.workgroups.map((_, dispatch) =>
    made
      .filter((launch) => launch.dispatch === dispatch)
      .flatMap(({ slice, workgroups }) =>
        Array.from({ length: workgroups }, (_, i) => (plan.firsts[slice] ?? Number.NaN) + i),
      ),
  );
}

for (const workgroups of [[1], [63], [64], [1000, 1], [3, 129], [5, 70_000, 2]]) {
  for (const parts of [1, 2, 7, 1000]) {
    test(`${workgroups} workgroups in ${parts} parts run once each, in order`, () => {
      const plan = planSlices(workgroups, MOST);
      const bounds = Array.from({ length: parts + 1 }, (_, i) =>
        Math.floor((i * plan.count) / parts),
      );
      const made = bounds
        .slice(1)
        .flatMap((hi, i) => launches(plan, bounds[i] as number, hi, MOST));
      assert.deepEqual(
        covered(plan, made),
        workgroups.map((count) => Array.from({ length: count }, (_, i) => i)),
      );
      const order = made.map(({ dispatch }) => dispatch);
      assert.deepEqual(order, [...order].sort());
      assert.ok(made.every((launch) => launch.workgroups <= MOST));
    });
  }
}

test("a kernel that runs whole takes one launch for each dispatch", () => {
  const plan = planSlices([1000, 30], MOST);
  assert.equal(launches(plan, 0, plan.count, MOST).length, 2);
});

test("more workgroups than a dimension holds take several launches", () => {
  const plan = planSlices([5_000_000], MOST);
  assert.ok(plan.unit <= MOST);
  assert.equal(plan.firsts.length, Math.ceil(5_000_000 / plan.unit));
});

test("a long run is submitted in four parts of which the first is the shortest", () => {
  assert.deepEqual(submissionsOf(27), [0, 27]);
  assert.deepEqual(submissionsOf(28), [0, 4, 12, 20, 28]);
  assert.deepEqual(submissionsOf(97), [0, 14, 42, 69, 97]);
});

test("the step of timestamps is what divides their differences", () => {
  const quantised = [3n, 4n, 4n, 7n, 11n, 12n, 19n].map((tick) => tick * 100_000n + 5n);
  assert.equal(quantumNs(quantised), 100_000);
  assert.equal(quantumNs([7n, 20n, 33n, 46n, 59n, 85n]), 13);
});

test("a step that few ticks show is not known", () => {
  assert.equal(quantumNs([1n, 1n, 300_001n, 300_001n]), null);
});

/** A timer on which one call takes `ns`, in steps of `stepMs`. */
function steady(ns: number, stepMs: number) {
  let encoded = 0;
  const work = { slices: 64, encode: () => void encoded++ };
  const passNs = async (encode: (pass: GPUComputePassEncoder) => void): Promise<number> => {
    encoded = 0;
    encode(undefined as unknown as GPUComputePassEncoder);
    const stepNs = 1e6 * stepMs;
    return Math.floor((encoded * ns) / stepNs) * stepNs;
  };
  const timer = {
    kind: "timestamp" as const,
    tickMs: stepMs,
    stepMs,
    passNs,
    dispose: () => undefined,
  };
  return { timer, work };
}

for (const ns of [3_000, 24_000, 900_000, 9_000_000]) {
  test(`a sample of a kernel of ${ns} ns lasts a hundred steps`, async () => {
    const { timer, work } = steady(ns, 0.1);
    const { calls, passes } = await shapeOf(timer, work, ns / 1e6, Number.POSITIVE_INFINITY);
    assert.equal(passes, 1);
    assert.ok(calls * ns >= 0.99 * 10e6, `${calls} calls`);
    assert.ok(calls * ns <= 20e6, `${calls} calls`);
  });
}

test("beside inferences samples are as short as the timer's own resolution lets them be", async () => {
  const { timer, work } = steady(3_000, 0.001);
  let rests = 0;
  const resting = restingTimer({ ...timer, stepMs: 0.05 }, async () => void rests++);
  const { calls } = await shapeOf(resting, work, 0.003, Number.POSITIVE_INFINITY);
  assert.ok(calls * 3_000 >= 0.99e6 && calls * 3_000 <= 2e6, `${calls} calls`);
  assert.ok(rests > 2, "each pass has a rest before it");
});

for (const disturbed of [0, 1, 2]) {
  test(`reading ${disturbed} of a sample's size may take as long as the whole sample`, async () => {
    const { timer, work } = steady(24_000, 0.1);
    let reading = 0;
    const waking: typeof timer = {
      ...timer,
      passNs: async (encode) => (await timer.passNs(encode)) + (reading++ === disturbed ? 2e7 : 0),
    };
    const { calls } = await shapeOf(waking, work, 0.024, Number.POSITIVE_INFINITY);
    assert.ok(calls * 24_000 >= 0.99 * 10e6, `${calls} calls`);
  });
}

/** A GPU that answers after `waitMs`, and takes `sliceMs` for a slice. */
function answering(waitMs: number, sliceMs: number) {
  let [nowMs, submitted] = [0, 0];
  const submissions: number[] = [];
  const pass = { end: () => undefined };
  const encoder = { beginComputePass: () => pass, finish: () => undefined };
  const open = {
    device: { createCommandEncoder: () => encoder, queue: { submit: () => undefined } },
    idle: async () => {
      nowMs += waitMs + submitted * sliceMs;
      submissions.push(submitted);
    },
  };
  const work = {
    slices: 64,
    encode: (_: unknown, lo = 0, hi = 64) => {
      submitted = hi - lo;
    },
  };
  const run = (rest: (() => Promise<void>) | null) =>
    runInSlices(open as unknown as OpenDevice, work, 1e6, { clock: () => nowMs, rest });
  return { run, submissions };
}

test("beside inferences a kernel runs in few submissions, however long a GPU takes to answer", async () => {
  const rest = async (): Promise<void> => undefined;
  const quick = answering(2.5, 0.01);
  await quick.run(rest);
  assert.deepEqual(quick.submissions, [1, 2, 4, 8, 16, 32, 1]);
  const slow = answering(2.5, 1);
  await slow.run(rest);
  assert.ok(Math.max(...slow.submissions) <= 2, "as short as others want them");
  const alone = answering(0.1, 0.01);
  await alone.run(null);
  assert.deepEqual(alone.submissions, [1, 2, 4, 8, 16, 32, 1]);
});

/** Milliseconds of work, and the clock in MHz from there on, of a GPU that was idle before. */
const RAMP = [
  [0, 345],
  [90, 690],
  [160, 1_200],
  [220, 1_700],
  [260, 1_980],
] as const;
const FULL_MHZ = 1_980;

/** A kernel of 24 µs at the full clock, on a GPU whose clock follows `RAMP` as it works. */
function ramping(idleMs: () => number) {
  let [timeMs, busyMs, encoded] = [0, 0, 0];
  const work = {
    slices: 1,
    encode: () => {
      encoded += 1;
    },
  };
  const passNs = async (encode: (pass: GPUComputePassEncoder) => void): Promise<number> => {
    encoded = 0;
    encode(undefined as unknown as GPUComputePassEncoder);
    const mhz = RAMP.filter(([from]) => from <= busyMs).at(-1)?.[1] ?? FULL_MHZ;
    const ns = (encoded * 24_000 * FULL_MHZ) / mhz;
    busyMs += ns / 1e6;
    timeMs += ns / 1e6 + idleMs();
    return ns;
  };
  const timer = {
    kind: "timestamp" as const,
    tickMs: 0.1,
    stepMs: 0.1,
    passNs,
    dispose: () => undefined,
  };
  return {
    timer,
    work,
    clock: () => timeMs,
    full: () => busyMs >= 260,
    idle: (): void => {
      busyMs = 0;
      timeMs += 400;
    },
    rest: (ms: number): void => {
      timeMs += ms;
    },
  };
}

test("the clock of an idle GPU is up before anything is timed", async () => {
  const gpu = ramping(() => 0.2);
  const activity = noActivity();
  assert.equal(gpu.full(), false);
  await raiseClock(gpu.timer, gpu.work, activity, Number.POSITIVE_INFINITY, gpu.clock);
  assert.ok(gpu.full());
  assert.ok(gpu.clock() < 400, `${gpu.clock()} ms`);
  assert.equal(activity.lastMs, gpu.clock());
});

test("a GPU that was at work a moment ago is kept at work, not raised again", async () => {
  const gpu = ramping(() => 0.2);
  const activity = noActivity();
  await raiseClock(gpu.timer, gpu.work, activity, Number.POSITIVE_INFINITY, gpu.clock);
  for (const [restMs, least, most] of [
    [5, 10, 60],
    [500, 290, 400],
  ] as const) {
    gpu.rest(restMs);
    const begun = gpu.clock();
    await raiseClock(gpu.timer, gpu.work, activity, Number.POSITIVE_INFINITY, gpu.clock);
    const tookMs = gpu.clock() - begun;
    assert.ok(tookMs >= least && tookMs <= most, `${tookMs} ms after ${restMs} ms of rest`);
  }
});

/**
 * Makes what an agent measures with, on a GPU whose clock falls as soon as it has nothing to do.
 */
function agentOn(gpu: ReturnType<typeof ramping>) {
  const pass = { end: () => undefined };
  const encoder = { beginComputePass: () => pass, finish: () => undefined };
  const device = { createCommandEncoder: () => encoder, queue: { submit: () => undefined } };
  const open = { device, idle: async () => undefined };
  /** True for each pass of the candidate during which the clock was up. */
  const timed: boolean[] = [];
  const bound = (kernel: KernelWire, encode: () => void) => ({
    ...gpu.work,
    program: { kernel, compileMs: 0 },
    encode,
    dispose: () => undefined,
  });
  const candidate = { ...tinyKernel("add", 4), candidate: "c".repeat(32) };
  const lease = tinyLease([candidate]);
  const output = Float32Array.of(1, 2, 3, 4);
  let inPass = false;
  const timer = {
    ...gpu.timer,
    passNs: async (encode: (pass: GPUComputePassEncoder) => void) => {
      inPass = true;
      const ns = await gpu.timer.passNs(encode);
      inPass = false;
      return ns;
    },
  };
  const encodeCandidate = (): void => {
    gpu.work.encode();
    if (inPass) timed.push(gpu.full());
  };
  const bench = {
    open,
    bind: async () => bound(candidate, encodeCandidate),
    clearOutput: () => undefined,
    output: async () => {
      gpu.idle();
      return output;
    },
    states: async () => [],
  } as unknown as GpuBench;
  const reference = {
    ...{ bound: bound(lease.reference, gpu.work.encode), output, states: [], callMs: 0.1, timer },
    ...{ activity: noActivity(), pacing: { ...UNDISTURBED, clock: gpu.clock } },
  } as unknown as GpuReference;
  return { bench, reference, lease, timed };
}

test("an agent times a candidate at the full clock, though comparing outputs left the GPU idle", async () => {
  const gpu = ramping(() => 0.2);
  const { bench, reference, lease, timed } = agentOn(gpu);
  for (let turn = 0; turn < 2; turn++) {
    gpu.idle();
    const made = await measureGpu(bench, lease, reference, {} as Program);
    assert.equal(made.outcome, "ok");
  }
  assert.ok(timed.length > 0);
  assert.ok(timed.every((full) => full));
});

test("an agent ranks its best at the full clock", async () => {
  const gpu = ramping(() => 0.2);
  const { bench, reference, timed } = agentOn(gpu);
  gpu.idle();
  const [relative] = await measureGpuAgain(bench, reference, [{} as Program]);
  assert.ok(Math.abs((relative as number) - 1) < 0.01);
  assert.ok(timed.every((full) => full));
});

test("no candidate is timed before all pipelines of its lease exist", async () => {
  let compiled: () => void = () => undefined;
  const slow = new Promise<void>((resolve) => {
    compiled = resolve;
  });
  const candidates = ["c", "d"].map((digit) => {
    return { ...tinyKernel("add", 4), candidate: digit.repeat(32) };
  });
  const device = { lost: new Promise(() => undefined), features: new Set(), limits: {} };
  const owner = { device: async () => ({ device, loss: null }) } as unknown as DeviceOwner;
  const [first, second] = candidates as [KernelWire, KernelWire];
  const load = async (_: unknown, kernel: KernelWire): Promise<Program> => {
    if (kernel === second) await slow;
    return {} as Program;
  };
  const lease = tinyLease(candidates);
  const opened = await gpuInstrument(owner, load).open(lease, candidates);
  let ready = false;
  const timing = opened.candidate(first).then(() => {
    ready = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(ready, false, "the second is still compiled");
  compiled();
  await timing;
  assert.equal(ready, true);
});

test("a clock that never settles is not waited for", async () => {
  const gpu = ramping(() => 0);
  let reading = 0;
  const timer = {
    ...gpu.timer,
    passNs: async (encode: (pass: GPUComputePassEncoder) => void) =>
      (await gpu.timer.passNs(encode)) * (reading++ % 2 === 0 ? 1 : 1.5),
  };
  await raiseClock(timer, gpu.work, noActivity(), Number.POSITIVE_INFINITY, gpu.clock);
  assert.ok(gpu.clock() >= 900 && gpu.clock() < 1_000, `${gpu.clock()} ms`);
});

test("a slow kernel is sampled once, in passes that leave the GPU to others", async () => {
  const { timer, work } = steady(1e9, 0.1);
  const shape = await shapeOf(timer, work, 1_000, Number.POSITIVE_INFINITY);
  assert.deepEqual(shape, { calls: 1, passes: 20 });
});

test("as much work goes on at once as is allowed, failures included", async () => {
  const bounded = limiter(() => 2);
  let now = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    throw new Error("failed");
  };
  const all = await Promise.allSettled(Array.from({ length: 7 }, () => bounded(work)));
  assert.ok(all.every(({ status }) => status === "rejected"));
  assert.equal(most, 2);
});

test("buffers are padded to a vector", () => {
  assert.deepEqual([0, 1, 16, 17].map(padded), [16, 16, 16, 32]);
});

test("levels of a GPU are powers of two", () => {
  const probe = { rho: "r101-0", settled: true, peakGflops: 65_800, bandwidthGbps: 3_900 };
  assert.deepEqual(gpuLevelsOf({ ...probe, dispatchUs: 0.3 }), {
    peak_gflops: 65_536,
    bandwidth_gbps: 4_096,
    dispatch_us: 1,
  });
});

test("probes name settings that are there, with margins a fifth above a tie", () => {
  for (const { base, advanced, margin } of GPU_PRIMITIVES) {
    assert.ok(base in GPU_SETTINGS && advanced in GPU_SETTINGS);
    assert.ok(margin >= 1.2);
    assert.equal(GPU_SETTINGS[base].work, GPU_SETTINGS[advanced].work);
  }
});

const served = {} as ServedKernel;
const GPU = { kind: "gpu" } as GpuSide;
const NO_GPU: GpuSide = { kind: "none", reason: "no adapter" };
const entryOf = (advice: "wasm" | "webgpu", parts: Partial<ManifestEntry> = {}): ManifestEntry => ({
  workload: "w",
  flops: 1,
  wasm: served,
  webgpu: served,
  advice: { target: advice, basis: "measured" },
  ...parts,
});

test("the advice is followed unless the page names a target", () => {
  assert.equal(chooseTarget("auto", entryOf("webgpu"), GPU).target, "webgpu");
  assert.equal(chooseTarget("auto", entryOf("wasm"), GPU).target, "wasm");
  assert.equal(chooseTarget("wasm", entryOf("webgpu"), GPU).target, "wasm");
  assert.equal(chooseTarget("webgpu", entryOf("wasm"), GPU).target, "webgpu");
});

test("where there is no GPU or no kernel it is the other target, with the reason", () => {
  assert.deepEqual(chooseTarget("auto", entryOf("webgpu"), NO_GPU), {
    target: "wasm",
    reason: "no adapter",
  });
  const without = chooseTarget("webgpu", entryOf("wasm", { webgpu: null }), GPU);
  assert.equal(without.target, "wasm");
  assert.match(without.reason ?? "", /no kernel of webgpu/);
  assert.equal(chooseTarget("wasm", entryOf("webgpu", { wasm: null }), GPU).target, "webgpu");
});

const ports = (target: "wasm" | "webgpu"): AgentPorts => ({ target }) as AgentPorts;

test("targets take turns, and one is set up when its turn comes", async () => {
  const made: string[] = [];
  const setUp = (target: "wasm" | "webgpu") => async () => {
    made.push(target);
    return ports(target);
  };
  const rotation = new TargetRotation([setUp("wasm"), setUp("webgpu")]);
  const next = async () => (await rotation.current())?.ports.target;
  assert.equal(await next(), "wasm");
  rotation.worked();
  assert.equal(await next(), "wasm");
  assert.deepEqual(made, ["wasm"]);
  rotation.next();
  assert.equal(await next(), "webgpu");
  rotation.next();
  assert.equal(await next(), "wasm");
  assert.deepEqual(made, ["wasm", "webgpu"]);
});

test("a request waits long when there is one target or all are idle", async () => {
  const alone = new TargetRotation([async () => ports("wasm")]);
  assert.equal(alone.waitS, 20);
  const two = new TargetRotation([async () => ports("wasm"), async () => ports("webgpu")]);
  assert.equal(two.waitS, 2);
  two.next();
  two.next();
  assert.equal(two.waitS, 10);
  two.worked();
  assert.equal(two.waitS, 2);
});

test("a target that this browser lacks is left out", async () => {
  const rotation = new TargetRotation([async () => null, async () => ports("webgpu")]);
  assert.equal((await rotation.current())?.ports.target, "webgpu");
  assert.equal(rotation.waitS, 20);
  assert.equal(await new TargetRotation([async () => null]).current(), undefined);
});
