/**
 * Draws a token of its logits on the GPU, in one workgroup, so that texts that are drawn wait for
 * the page no more than others do. It is no workload: a token that roundings decide is nothing that
 * devices could vote on.
 */
import { BoundProgram } from "../../backend/webgpu/binding.js";
import { storageBuffer } from "../../backend/webgpu/buffers.js";
import type { OpenDevice } from "../../backend/webgpu/device.js";
import { compileOwn } from "../../backend/webgpu/program.js";
import type { Sampling } from "../decode-order.js";

const SAMPLING_BYTES = 32;
/** A thread reads so many logits or more. */
const LOGITS_EACH = 16;
const LEAST_THREADS = 32;
const MOST_THREADS = 1024;
/** Each leaves a fifth of the range in which the least logit lies of those that may be drawn. */
const ROUNDS = 11;
const COMPILE_MS = 30_000;
/** The logarithm of a share that none falls below in f32, where any token may be drawn. */
const LEAST_POWER = -1e30;

/**
 * 1. The largest logit.
 * 2. The least logit that may be drawn: above a larger one lie fewer logits, and less of the
 *    probability, so that those among the likeliest `top_k`, and among the likeliest that have
 *    `top_p` of the probability, are the ones above a number.
 * 3. Of those the one whose (logit - most) / temperature - log(E) is largest, E being drawn of the
 *    exponential distribution by the seed, the place in the text and the token: each is drawn as
 *    often as its probability says (the Gumbel-max trick). Without noise it is the likeliest, the
 *    first of equals.
 */
const textOf = (vocabulary: number, threads: number): string => `
struct Sampling {
  inverse_temperature: f32, top_p: f32, top_k: u32, seed: u32,
  least_power: f32, noise_share: f32,
}
@group(0) @binding(0) var<storage, read> logits: array<vec4f>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read> sampling: Sampling;
@group(0) @binding(3) var<storage, read_write> chosen: array<i32>;

const COUNT = ${vocabulary}u;
const QUADS = ${Math.ceil(vocabulary / 4)}u;
const THREADS = ${threads}u;
const HALF = ${threads / 2}u;
const LOWEST = -0x1p100f;
const UNLIMITED = 0x1p100f;
var<workgroup> counts: array<vec4f, HALF>;
var<workgroup> masses: array<vec4f, HALF>;

fn places(quad: u32) -> vec4u { return vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u); }

fn entries(quad: u32) -> vec4f {
  return select(vec4f(LOWEST), logits[quad], places(quad) < vec4u(COUNT));
}

// Sums over all threads, in the first place of counts and masses.
fn add(thread: u32, own_count: vec4f, own_mass: vec4f) {
  var count = own_count;
  var mass = own_mass;
  for (var half = HALF; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread >= half && thread < 2u * half) {
      counts[thread - half] = count;
      masses[thread - half] = mass;
    }
    workgroupBarrier();
    if (thread < half) {
      count += counts[thread];
      mass += masses[thread];
    }
  }
  if (thread == 0u) {
    counts[0] = count;
    masses[0] = mass;
  }
  workgroupBarrier();
}

// The larger of two scores with their places, the first of equals.
fn better(left: vec2f, right: vec2f) -> vec2f {
  return select(left, right, right.x > left.x || (right.x == left.x && right.y < left.y));
}

// The best over all threads, in the first place of counts.
fn find(thread: u32, own: vec2f) {
  var best = own;
  for (var half = HALF; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread >= half && thread < 2u * half) { counts[thread - half] = vec4f(best, 0.0, 0.0); }
    workgroupBarrier();
    if (thread < half) { best = better(best, counts[thread].xy); }
  }
  if (thread == 0u) { counts[0] = vec4f(best, 0.0, 0.0); }
  workgroupBarrier();
}

fn hash(value: u32) -> u32 {
  let state = value * 747796405u + 2891336453u;
  let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}

// -log(E); where E is small it is taken of the series, as 1 - drawn has lost its digits.
fn noise(place: u32, key: u32) -> f32 {
  let drawn = (f32(hash(key + hash(place + key)) >> 8u) + 0.5) * 0x1p-24f;
  let series = drawn * (1.0 + drawn * (0.5 + drawn * (0.33333334 + drawn * 0.25)));
  return -log(select(-log(1.0 - drawn), series, drawn < 0x1p-5f));
}

@compute @workgroup_size(THREADS)
fn draw(@builtin(local_invocation_index) thread: u32) {
  // 1.
  var largest = LOWEST;
  for (var quad = thread; quad < QUADS; quad += THREADS) {
    let each = entries(quad);
    largest = max(largest, max(max(each.x, each.y), max(each.z, each.w)));
  }
  find(thread, vec2f(largest, 0.0));
  let most = counts[0].x;
  let scale = sampling.inverse_temperature;

  // 2. What is less likely than exp(-30) of the likeliest is left out.
  var low = LOWEST;
  if (sampling.top_k > 0u || sampling.top_p < 1.0) {
    var sum = 0.0;
    for (var quad = thread; quad < QUADS; quad += THREADS) {
      sum += dot(exp((entries(quad) - most) * scale), vec4f(1.0));
    }
    add(thread, vec4f(0.0), vec4f(sum));
    let many = select(f32(sampling.top_k), UNLIMITED, sampling.top_k == 0u);
    let enough = select(sampling.top_p * masses[0].x, UNLIMITED, sampling.top_p >= 1.0);
    low = most - 30.0 / scale;
    var high = most;
    for (var round = 0u; round < ${ROUNDS}u; round++) {
      let steps = low + (high - low) * vec4f(0.2, 0.4, 0.6, 0.8);
      var count = vec4f(0.0);
      var mass = vec4f(0.0);
      for (var quad = thread; quad < QUADS; quad += THREADS) {
        let each = entries(quad);
        let powers = exp((each - most) * scale);
        for (var lane = 0u; lane < 4u; lane++) {
          let above = select(vec4f(0.0), vec4f(1.0), vec4f(each[lane]) > steps);
          count += above;
          mass += above * powers[lane];
        }
      }
      add(thread, count, mass);
      let fits = (counts[0] < vec4f(many)) & (masses[0] < vec4f(enough));
      let under = select(steps, vec4f(low), fits);
      let over = select(vec4f(high), steps, fits);
      low = max(max(under.x, under.y), max(under.z, under.w));
      high = min(min(over.x, over.y), min(over.z, over.w));
    }
  }

  low = max(low, most + sampling.least_power / scale);

  // 3.
  let key = hash(u32(position[0]) ^ hash(sampling.seed));
  var best = vec2f(LOWEST, f32(COUNT - 1u));
  for (var quad = thread; quad < QUADS; quad += THREADS) {
    let each = entries(quad);
    let at = places(quad);
    for (var lane = 0u; lane < 4u; lane++) {
      if (at[lane] < COUNT && (each[lane] > low || each[lane] == most)) {
        let drawn = sampling.noise_share * noise(at[lane], key);
        let score = (each[lane] - most) * scale + drawn;
        best = better(best, vec2f(score, f32(at[lane])));
      }
    }
  }
  find(thread, best);
  if (thread == 0u) { chosen[0] = i32(counts[0].y); }
}
`;

/** Threads of the workgroup for so many logits: a power of two. */
function threadsFor(vocabulary: number, most: number): number {
  let threads = LEAST_THREADS;
  const fits = (count: number): boolean =>
    count <= Math.min(MOST_THREADS, most) && count * LOGITS_EACH <= vocabulary;
  while (fits(2 * threads)) threads *= 2;
  return threads;
}

interface SamplerBuffers {
  readonly logits: GPUBuffer;
  readonly position: GPUBuffer;
  readonly chosen: GPUBuffer;
}

export class TokenSampler {
  readonly #open: OpenDevice;
  readonly #sampling: GPUBuffer;
  readonly #bound: BoundProgram;

  private constructor(open: OpenDevice, sampling: GPUBuffer, bound: BoundProgram) {
    this.#open = open;
    this.#sampling = sampling;
    this.#bound = bound;
  }

  /** Throws KernelZooError: validate, compile, memory, run. */
  static async load(
    open: OpenDevice,
    vocabulary: number,
    { logits, position, chosen }: SamplerBuffers,
  ): Promise<TokenSampler> {
    const threads = threadsFor(vocabulary, open.device.limits.maxComputeInvocationsPerWorkgroup);
    const own = {
      candidate: "sampler",
      bindings: { logits: "input", position: "input", sampling: "input", chosen: "output" },
      dispatches: [{ entry: "draw", threads, workgroups: 1 }],
      code: textOf(vocabulary, threads),
    } as const;
    const program = await compileOwn(open, own, COMPILE_MS);
    return open.scoped(() => {
      const sampling = storageBuffer(open.device, SAMPLING_BYTES);
      const bound = new BoundProgram(program, [logits, position, sampling, chosen]);
      return new TokenSampler(open, sampling, bound);
    }, COMPILE_MS);
  }

  /** Says how the tokens of what is submitted next are drawn. */
  write({ temperature, topK, topP, minP, seed }: Sampling): void {
    const words = new DataView(new ArrayBuffer(SAMPLING_BYTES));
    const greedy = temperature === 0;
    words.setFloat32(0, greedy ? 1 : 1 / temperature, true);
    words.setFloat32(4, topP, true);
    words.setUint32(8, topK, true);
    words.setUint32(12, seed, true);
    words.setFloat32(16, Math.max(LEAST_POWER, Math.log(minP)), true);
    words.setFloat32(20, greedy ? 0 : 1, true);
    this.#open.device.queue.writeBuffer(this.#sampling, 0, words.buffer);
  }

  encode(pass: GPUComputePassEncoder): void {
    this.#bound.encode(pass);
  }
}
