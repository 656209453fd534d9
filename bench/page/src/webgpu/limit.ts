/** Measures what an adapter can do: products and sums in registers alone, and reading alone. */
import type { Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { storageBuffer } from "../../../../client/src/backend/webgpu/buffers.js";
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import type { GpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
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

const chains = (each: (i: number) => string): string =>
  Array.from({ length: CHAINS }, (_, i) => each(i)).join("");

/** Sixteen independent chains of vectors, so that neither latency nor memory counts. */
const FMA_LOOP = `
alias Vector = vec4<f32>;
@group(0) @binding(0) var<storage, read_write> sink: array<Vector>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let a = Vector(f32(id.x % 64u) * 0.001 + 1.0);
  let m = Vector(0.999, 0.998, 0.997, 0.996);
  ${chains((i) => `var x${i} = a + ${i}.0;\n`)}
  for (var i = 0u; i < ${STEPS}u; i++) {
    ${chains((i) => `x${i} = fma(x${i}, m, a);\n`)}
  }
  let all = Vector()${chains((i) => ` + x${i}`)};
  if (all.x == 12345.0) { sink[id.x % 64u] = all; }
}`;

/** Reads the source once; where it copies, the sink is as large. */
const memoryLoop = (vectors: number, threads: number, copies: boolean): string => `
@group(0) @binding(0) var<storage, read_write> sink: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> source: array<vec4<f32>>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var sum = vec4<f32>();
  for (var i = id.x; i < ${vectors}u; i += ${threads}u) {
    ${copies ? "sink[i] = source[i];" : "sum += source[i];"}
  }
  if (sum.x == 12345.0) { sink[id.x % 64u] = sum; }
}`;

/** A pipeline with `buffers` bound, for any number of workgroups. */
async function loopOn(
  { device }: OpenDevice,
  code: string,
  buffers: readonly GPUBuffer[],
): Promise<(workgroups: number) => Sliced> {
  const module = device.createShaderModule({ code });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
  const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
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
  const sink = storageBuffer(open.device, SINK_BYTES);
  return (await loopOn(open, FMA_LOOP, [sink]))(FIRST_WORKGROUPS);
}

/** The register-only limit, which is that of kernels of float16 too: they compute in float32. */
export async function fmaLimit(open: OpenDevice, timer: GpuTimer): Promise<GpuEntrant> {
  const sink = storageBuffer(open.device, SINK_BYTES);
  const loop = await loopOn(open, FMA_LOOP, [sink]);
  let workgroups = FIRST_WORKGROUPS;
  for (; workgroups < MOST_WORKGROUPS; workgroups *= 2) {
    const { encode } = loop(workgroups);
    if ((await timer.passNs(encode, LIMIT_MS)) / 1e6 >= CALL_MS) break;
  }
  return {
    ...NO_CALLS,
    name: "limit-f32",
    flops: workgroups * FLOPS_PER_WORKGROUP,
    bytes: 0,
    timer,
    kernel: async () => loop(workgroups),
    dispose: () => sink.destroy(),
  };
}

/** Moves so many bytes once: a thread's vectors are as far apart as there are threads. */
export async function memoryLimit(
  open: OpenDevice,
  timer: GpuTimer,
  bytes: number,
  { copies = false } = {},
): Promise<GpuEntrant> {
  const vectors = Math.ceil(bytes / 16);
  const workgroups = Math.min(Math.ceil(vectors / VECTORS / THREADS), 65_535);
  const source = storageBuffer(open.device, bytes);
  const sink = storageBuffer(open.device, copies ? bytes : SINK_BYTES);
  const code = memoryLoop(vectors, workgroups * THREADS, copies);
  const loop = await loopOn(open, code, [sink, source]);
  return {
    ...NO_CALLS,
    name: copies ? "copying" : "reading",
    flops: 0,
    bytes: (copies ? 2 : 1) * bytes,
    timer,
    kernel: async () => loop(workgroups),
    dispose: () => {
      source.destroy();
      sink.destroy();
    },
  };
}
