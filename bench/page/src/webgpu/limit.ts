/** What an adapter can do: products and sums in registers alone, and reading alone. */
import { storageBuffer } from "../../../../client/src/gpu/buffers.js";
import type { OpenDevice } from "../../../../client/src/gpu/device.js";
import type { Sliced } from "../../../../client/src/gpu/submit.js";
import type { GpuTimer } from "../../../../client/src/gpu/timer.js";
import type { GpuEntrant } from "./entrant.js";

const THREADS = 256;
const CHAINS = 16;
const STEPS = 1024;
const FLOPS_PER_WORKGROUP = THREADS * STEPS * CHAINS * 4 * 2;
/** Doubled until a call is as long as this: a fast GPU is then full several times over. */
const FIRST_WORKGROUPS = 4;
const MOST_WORKGROUPS = 1 << 15;
const CALL_MS = 5;
/** Vectors of four that each thread of the reading loop takes. */
const VECTORS = 8;
const SINK_BYTES = 1024;
const LIMIT_MS = 30_000;

export type Scalar = "f32" | "f16";

const chains = (each: (i: number) => string): string =>
  Array.from({ length: CHAINS }, (_, i) => each(i)).join("");

/** Sixteen independent chains of vectors, so that neither latency nor memory counts. */
const fmaLoop = (scalar: Scalar): string => `${scalar === "f16" ? "enable f16;" : ""}
alias Vector = vec4<${scalar}>;
@group(0) @binding(0) var<storage, read_write> sink: array<Vector>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let a = Vector(${scalar}(id.x % 64u) * 0.001 + 1.0);
  let m = Vector(0.999, 0.998, 0.997, 0.996);
  ${chains((i) => `var x${i} = a + ${i}.0;\n`)}
  for (var i = 0u; i < ${STEPS}u; i++) {
    ${chains((i) => `x${i} = fma(x${i}, m, a);\n`)}
  }
  let all = Vector()${chains((i) => ` + x${i}`)};
  if (all.x == 12345.0) { sink[id.x % 64u] = all; }
}`;

const readingLoop = (vectors: number, threads: number): string => `
@group(0) @binding(0) var<storage, read_write> sink: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> source: array<vec4<f32>>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var sum = vec4<f32>();
  for (var i = id.x; i < ${vectors}u; i += ${threads}u) { sum += source[i]; }
  if (sum.x == 12345.0) { sink[id.x % 64u] = sum; }
}`;

/** A pipeline with a sink and `sources` bound, for any number of workgroups. */
async function loopOn(
  { device }: OpenDevice,
  code: string,
  sources: readonly GPUBuffer[],
): Promise<(workgroups: number) => Sliced> {
  const module = device.createShaderModule({ code });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
  const sink = device.createBuffer({ size: SINK_BYTES, usage: GPUBufferUsage.STORAGE });
  const entries = [sink, ...sources].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const encode = (pass: GPUComputePassEncoder, workgroups: number): void => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(workgroups);
  };
  return (workgroups) => ({ slices: 1, encode: (pass) => encode(pass, workgroups) });
}

const NO_CALLS = { dispatches: [], profiledNs: null, difference: null, callers: {} } as const;

/** A dispatch that any adapter is done with soon. */
export async function shortWork(open: OpenDevice): Promise<Sliced> {
  return (await loopOn(open, fmaLoop("f32"), []))(FIRST_WORKGROUPS);
}

/** The register-only limit. */
export async function fmaLimit(
  open: OpenDevice,
  timer: GpuTimer,
  scalar: Scalar,
): Promise<GpuEntrant> {
  const loop = await loopOn(open, fmaLoop(scalar), []);
  let workgroups = FIRST_WORKGROUPS;
  for (; workgroups < MOST_WORKGROUPS; workgroups *= 2) {
    const { encode } = loop(workgroups);
    if ((await timer.passNs(encode, LIMIT_MS)) / 1e6 >= CALL_MS) break;
  }
  return {
    ...NO_CALLS,
    name: `limit-${scalar}`,
    flops: workgroups * FLOPS_PER_WORKGROUP,
    bytes: 0,
    timer,
    kernel: async () => loop(workgroups),
    dispose: () => undefined,
  };
}

/** Reads `data` once: a thread's vectors are as far apart as there are threads. */
export async function readingLimit(
  open: OpenDevice,
  timer: GpuTimer,
  data: Float32Array<ArrayBuffer>,
): Promise<GpuEntrant> {
  const vectors = Math.ceil(data.length / 4);
  const workgroups = Math.min(Math.ceil(vectors / VECTORS / THREADS), 65_535);
  const source = storageBuffer(open.device, data.byteLength);
  open.device.queue.writeBuffer(source, 0, data);
  const loop = await loopOn(open, readingLoop(vectors, workgroups * THREADS), [source]);
  return {
    ...NO_CALLS,
    name: "reading",
    flops: 0,
    bytes: data.byteLength,
    timer,
    kernel: async () => loop(workgroups),
    dispose: () => source.destroy(),
  };
}
