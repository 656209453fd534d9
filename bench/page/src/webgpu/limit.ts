/** What an adapter can do: products and sums in registers alone, and reading alone. */
import type { GpuEntrant } from "./entrant.js";
import { type Encode, PassClock } from "./pass-clock.js";

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
  device: GPUDevice,
  code: string,
  sources: readonly GPUBuffer[],
): Promise<(workgroups: number) => Encode> {
  const module = device.createShaderModule({ code });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
  const sink = device.createBuffer({ size: SINK_BYTES, usage: GPUBufferUsage.STORAGE });
  const entries = [sink, ...sources].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  return (workgroups) => (pass) => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(workgroups);
  };
}

/** The register-only limit. */
export async function fmaLimit(device: GPUDevice, scalar: Scalar): Promise<GpuEntrant> {
  const clock = new PassClock(device);
  const loop = await loopOn(device, fmaLoop(scalar), []);
  let workgroups = FIRST_WORKGROUPS;
  while (workgroups < MOST_WORKGROUPS && (await clock.passMs(loop(workgroups), 1)) < CALL_MS) {
    workgroups *= 2;
  }
  const encode = loop(workgroups);
  return {
    name: `limit-${scalar}`,
    flops: workgroups * FLOPS_PER_WORKGROUP,
    bytes: 0,
    dispatches: [],
    profiledNs: null,
    difference: null,
    clock,
    kernel: async () => encode,
    caller: null,
    dispose: () => clock.dispose(),
  };
}

/** Reads `data` once: a thread's vectors are as far apart as there are threads. */
export async function readingLimit(device: GPUDevice, data: Float32Array): Promise<GpuEntrant> {
  const clock = new PassClock(device);
  const vectors = Math.ceil(data.length / 4);
  const workgroups = Math.min(Math.ceil(vectors / VECTORS / THREADS), 65_535);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
  const source = device.createBuffer({ size: 16 * vectors, usage });
  device.queue.writeBuffer(source, 0, new Float32Array(data));
  const encode = (await loopOn(device, readingLoop(vectors, workgroups * THREADS), [source]))(
    workgroups,
  );
  return {
    name: "reading",
    flops: 0,
    bytes: data.byteLength,
    dispatches: [],
    profiledNs: null,
    difference: null,
    clock,
    kernel: async () => encode,
    caller: null,
    dispose: () => {
      clock.dispose();
      source.destroy();
    },
  };
}
