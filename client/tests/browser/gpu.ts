/** Parts of the client on a real WebGPU, called by tests/browser/test_gpu.py. */

import { BoundProgram, runInSlices, submitPass } from "../../src/backend/webgpu/binding.js";
import { readBuffer, storageBuffer } from "../../src/backend/webgpu/buffers.js";
import { DeviceOwner, OpenDevice } from "../../src/backend/webgpu/device.js";
import { compileProgram } from "../../src/backend/webgpu/program.js";
import { gpuTimer } from "../../src/backend/webgpu/timer.js";
import { sentence } from "../../src/engine/error.js";
import type { LoadProgram } from "../../src/measurer/kernel-cache.js";
import { UNDISTURBED } from "../../src/measurer/measurement.js";
import { gpuInstrument } from "../../src/measurer/webgpu/instrument.js";
import { probeGpu } from "../../src/probe/gpu-probe.js";
import { type Clock, now } from "../../src/timing/clock.js";
import type { KernelWire, Lease, MeasurementWire } from "../../src/wire/types.js";

/** No multiple of a vector, of a workgroup or of a slice. */
const ELEMENTS = 9_999;
const THREADS = 32;
const WORKGROUPS = Math.ceil(ELEMENTS / THREADS);
const LIMIT_MS = 20_000;

const BINDINGS = `
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
`;

const SCRATCH = "@group(0) @binding(3) var<storage, read_write> scratch: array<f32>;";

const entry = (name: string, body: string): string => `
@compute @workgroup_size(${THREADS})
fn ${name}(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let i = (first + group.x) * ${THREADS}u + thread;
  if (i < ${ELEMENTS}u) { ${body} }
}`;

const SLOW =
  "var x = a[i]; for (var n = 0u; n < 2000000u; n++) { x = x * 0.999 + b[i]; } c[i] = x;";

/** SwiftShader takes twice as long for each further decision in a loop: a second for 21. */
const CHOKING_LIMIT_MS = 150;
const CHOKING = `var s = 0.0; for (var k = 0u; k < 9u; k++) {
  ${Array.from({ length: 21 }, (_, n) => `if (i > ${n}u) { s += a[${n}u]; } else { s -= ${n}.0; }`).join("\n")}
} c[i] = s;`;

/**
 * The bindings of kernels of which a is a state: c = a + b from what a held before, and a becomes
 * b.
 */
const STATE = BINDINGS.replace("<storage, read> a", "<storage, read_write> a");
/** The bindings with a of f16, packed; `kept` of `ofPairs` is what becomes of a pair. */
const HALF_STATE = STATE.replace("a: array<f32>", "a: array<u32>");
const ofPairs = (kept: string): string => `if (i % 2u == 0u) {
  let held = unpack2x16float(a[i / 2u]); c[i] = held.x + b[i]; c[i + 1u] = held.y + b[i + 1u];
  a[i / 2u] = pack2x16float(${kept});
}`;

/** c = 2(a + b) in two dispatches through scratch, and what may be wrong with it. */
const TEXTS = {
  right: `${BINDINGS}${SCRATCH}
    ${entry("main", "scratch[i] = a[i] + b[i];")}${entry("then_1", "c[i] = 2.0 * scratch[i];")}`,
  wrong: BINDINGS + entry("main", "c[i] = 2.0 * (a[i] - b[i]);"),
  partial: BINDINGS + entry("main", "if (i % 7u != 3u) { c[i] = 2.0 * (a[i] + b[i]); }"),
  unreadable: `${BINDINGS}\nfn main( {`,
  misnamed: BINDINGS + entry("other", "c[i] = 0.0;"),
  // Stores to an input.
  misbound:
    BINDINGS.replace("<storage, read> a", "<storage, read_write> a") + entry("main", "a[i] = 0.0;"),
  keeping: STATE + entry("main", "c[i] = a[i] + b[i]; a[i] = b[i];"),
  forgetting: STATE + entry("main", "c[i] = a[i] + b[i];"),
  halving: HALF_STATE + entry("main", ofPairs("vec2<f32>(b[i], b[i + 1u])")),
  exchanging: HALF_STATE + entry("main", ofPairs("vec2<f32>(b[i + 1u], b[i])")),
  demanding: BINDINGS + entry("main", "c[i] = 0.0;"),
  slow: BINDINGS + entry("main", SLOW),
  choking: BINDINGS + entry("main", CHOKING),
} as const;

type Text = keyof typeof TEXTS;

function kernelOf(name: Text): KernelWire {
  const shape = [ELEMENTS];
  const dispatch = { workgroups: WORKGROUPS, threads: THREADS };
  const entries = name === "right" ? ["main", "then_1"] : ["main"];
  const halved = name === "halving" || name === "exchanging";
  const role = halved || name === "keeping" || name === "forgetting" ? "state" : "input";
  return {
    candidate: name,
    sha256: name,
    url: "",
    size_bytes: 0,
    abi: 1,
    target: "webgpu",
    requires: name === "demanding" ? ["workgroup-memory-64k"] : [],
    tensors: [
      { name: "a", role, dtype: halved ? "f16" : "f32", shape, limit: 0 },
      { name: "b", role: "input", dtype: "f32", shape, limit: 0 },
      { name: "c", role: "output", dtype: "f32", shape, limit: 0 },
    ],
    scratch_bytes: name === "right" ? 4 * ELEMENTS : 0,
    range_extent: WORKGROUPS * entries.length,
    layouts: [],
    dispatches: entries.map((each) => ({ entry: each, ...dispatch })),
  };
}

const leaseOf = (kernels: readonly KernelWire[]): Lease => ({
  lease: "1",
  nonce: "",
  expires_in_s: 60,
  workload: `double_sum:f32:n${ELEMENTS}`,
  flops: 2 * ELEMENTS,
  seed: 7,
  tolerance: 1e-6,
  reference: kernelOf("right"),
  candidates: [...kernels],
  measured: [],
  unmeasured: 0,
  complete: true,
});

interface Bound {
  readonly bound: BoundProgram;
  readonly output: GPUBuffer;
}

async function boundRight(open: OpenDevice): Promise<Bound> {
  const program = await compileProgram(open, kernelOf("right"), TEXTS.right);
  const buffers = Array.from({ length: 4 }, () => storageBuffer(open.device, 4 * ELEMENTS));
  const [a, b, output] = buffers as [GPUBuffer, GPUBuffer, GPUBuffer];
  const values = Float32Array.from({ length: ELEMENTS }, (_, i) => i);
  open.device.queue.writeBuffer(a, 0, values);
  open.device.queue.writeBuffer(b, 0, values);
  return { bound: await open.scoped(() => new BoundProgram(program, buffers), LIMIT_MS), output };
}

/** Returns whether the output is 4i everywhere when slices [lo, hi) run one after another. */
export async function rightInPartsOf(units: number): Promise<boolean> {
  const open = await new DeviceOwner().device();
  const { bound, output } = await boundRight(open);
  for (let lo = 0; lo < bound.slices; lo += units) {
    submitPass(open.device, (pass) => bound.encode(pass, lo, Math.min(lo + units, bound.slices)));
  }
  const values = new Float32Array(await readBuffer(open, output, 4 * ELEMENTS, LIMIT_MS));
  open.dispose();
  return values.every((value, i) => value === 4 * i);
}

/** Makes a clock by which what runs first takes long, as on a machine that is busy. */
function slowAtFirst(): Clock {
  let [readings, lateMs] = [0, 0];
  return () => {
    if (readings++ < 10) lateMs += 60;
    return now() + lateMs;
  };
}

/**
 * Measures kernels in one lease and returns what becomes of each; `lost` is one during which the
 * device is lost. With `slow` the reference's first run takes long.
 */
export async function measured(
  names: readonly (Text | "lost")[],
  reference: Text = "right",
  slow = false,
): Promise<MeasurementWire[]> {
  const owner = new DeviceOwner();
  const kernels = names.map((name) => kernelOf(name === "lost" ? "right" : name));
  const lease = { ...leaseOf(kernels), reference: kernelOf(reference) };
  const load: LoadProgram = (open, kernel) => {
    const limitMs = kernel.candidate === "choking" ? CHOKING_LIMIT_MS : undefined;
    return compileProgram(open, kernel, TEXTS[kernel.candidate as Text], limitMs);
  };
  const pacing = slow ? { ...UNDISTURBED, clock: slowAtFirst() } : UNDISTURBED;
  const instrument = gpuInstrument(owner, load, {}, pacing);
  const opened = await instrument.open(lease, kernels);
  const made: MeasurementWire[] = [];
  // All are compiled before any is timed, as the agent does.
  const prepared = await Promise.all(kernels.map((kernel) => opened.candidate(kernel)));
  for (const [i, name] of names.entries()) {
    const work = prepared[i];
    if (work === undefined) break;
    if (typeof work !== "function") {
      made.push(work);
      continue;
    }
    const open = await owner.device();
    const working = work();
    if (name === "lost") setTimeout(() => open.device.destroy(), 1);
    made.push(await working);
  }
  opened.dispose();
  owner.dispose();
  return made;
}

/**
 * Returns what is told of a reference that the driver does not compile in time, and the next
 * lease's outcomes.
 */
export async function unusableReference() {
  const owner = new DeviceOwner();
  const told: string[] = [];
  const load: LoadProgram = (open, kernel) => {
    const limitMs = kernel.candidate === "choking" ? CHOKING_LIMIT_MS : undefined;
    return compileProgram(open, kernel, TEXTS[kernel.candidate as Text], limitMs);
  };
  const instrument = gpuInstrument(owner, load, {
    referenceFailed: ({ reference }, { message }) =>
      void told.push(`${reference.candidate}: ${message}`),
  });
  const lease = { ...leaseOf([kernelOf("right")]), reference: kernelOf("choking") };
  const opened = await instrument.open(lease, lease.candidates);
  const work = await opened.candidate(kernelOf("right"));
  const measuring = typeof work === "function" ? work() : work;
  const thrown = await Promise.resolve(measuring).then(() => "", sentence);
  opened.dispose();
  owner.dispose();
  const next = await measured(["right"]);
  return { told, thrown, next: next.map(({ outcome }) => outcome) };
}

/** Relative times of the reference against itself. */
export async function measuredAgain(): Promise<readonly number[]> {
  const owner = new DeviceOwner();
  const kernels = [kernelOf("right"), kernelOf("right")];
  const instrument = gpuInstrument(owner, (open, kernel) =>
    compileProgram(open, kernel, TEXTS[kernel.candidate as Text]),
  );
  const opened = await instrument.open(leaseOf(kernels), kernels);
  const times = await (await opened.again(kernels))();
  owner.dispose();
  return times;
}

async function bareDevice(): Promise<OpenDevice> {
  const adapter = await navigator.gpu.requestAdapter();
  if (adapter === null) throw new Error("no adapter");
  return new OpenDevice(await adapter.requestDevice());
}

/**
 * Returns what a device is timed with, and nanoseconds of 128 calls over those of 8: the least of a
 * few, as other work only adds.
 */
export async function timed(timestamps: boolean) {
  const open = timestamps ? await new DeviceOwner().device() : await bareDevice();
  const { bound } = await boundRight(open);
  await runInSlices(open, bound, now() + LIMIT_MS);
  const timer = await gpuTimer(open, (pass) => bound.encode(pass, 0, 1), LIMIT_MS);
  const least = async (count: number) => {
    let ns = Number.POSITIVE_INFINITY;
    for (let reading = 0; reading < 5; reading++) {
      const taken = await timer.passNs((pass) => {
        for (let call = 0; call < count; call++) bound.encode(pass);
      }, LIMIT_MS);
      ns = Math.min(ns, taken);
    }
    return ns;
  };
  const few = await least(8);
  const { kind, stepMs } = timer;
  const growth = (await least(128)) / few;
  open.dispose();
  return { kind, stepMs, growth };
}

/** A device that is lost while its owner lives is followed by another. */
export async function afterLoss() {
  const owner = new DeviceOwner();
  const first = await owner.device();
  first.device.destroy();
  await first.device.lost;
  const second = await owner.device();
  const { bound, output } = await boundRight(second);
  await runInSlices(second, bound, now() + LIMIT_MS);
  const values = new Float32Array(await readBuffer(second, output, 8, LIMIT_MS));
  return { another: first !== second, loss: first.loss?.message ?? "", value: values[1] };
}

export async function probed() {
  const open = await new DeviceOwner().device();
  const start = now();
  const result = await probeGpu(open);
  return { ...result, elapsedMs: now() - start, features: open.features };
}
