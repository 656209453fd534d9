/**
 * Adjusts logits on the GPU before a token is chosen of them, and counts what was chosen, so that
 * texts with penalties wait for the page no more than others do.
 */
import { BoundProgram } from "../../backend/webgpu/binding.js";
import { storageBuffer } from "../../backend/webgpu/buffers.js";
import type { OpenDevice } from "../../backend/webgpu/device.js";
import { compileOwn } from "../../backend/webgpu/program.js";
import type { KnownToken, Sampling } from "../decode-order.js";

const WORD_BYTES = Uint32Array.BYTES_PER_ELEMENT;
const PENALTIES_BYTES = 16;
const THREADS = 64;
/** More would do nothing of the largest vocabularies, as each thread takes some logits. */
const MOST_WORKGROUPS = 64;
const COMPILE_MS = 30_000;

/**
 * `adjust` changes the logits in place, which the head computes anew for the next token; `count` adds
 * the token that was chosen. Occurrences are those of `KnownToken`.
 */
const textOf = (vocabulary: number, workgroups: number): string => `
struct Penalties { repetition: f32, frequency: f32, presence: f32, unused: f32 }
@group(0) @binding(0) var<storage, read_write> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> occurrences: array<u32>;
@group(0) @binding(2) var<storage, read> biases: array<f32>;
@group(0) @binding(3) var<storage, read> penalties: Penalties;
@group(0) @binding(4) var<storage, read> chosen: array<i32>;

const COUNT = ${vocabulary}u;
const THREADS = ${THREADS}u;
const ALL_THREADS = ${THREADS * workgroups}u;

@compute @workgroup_size(THREADS)
fn adjust(@builtin(global_invocation_id) thread: vec3u) {
  for (var token = thread.x; token < COUNT; token += ALL_THREADS) {
    var logit = logits[token];
    let occurred = occurrences[token];
    if (occurred > 0u) {
      logit = select(logit * penalties.repetition, logit / penalties.repetition, logit > 0.0);
    }
    if (occurred > 1u) {
      logit -= penalties.frequency * f32(occurred - 1u) + penalties.presence;
    }
    logits[token] = logit + biases[token];
  }
}

@compute @workgroup_size(1)
fn count() {
  let token = chosen[0];
  occurrences[token] = max(occurrences[token], 1u) + 1u;
}
`;

export class Adjuster {
  readonly #open: OpenDevice;
  readonly #vocabulary: number;
  readonly #buffers: Record<"occurrences" | "biases" | "penalties", GPUBuffer>;
  readonly #bound: BoundProgram;

  private constructor(
    open: OpenDevice,
    vocabulary: number,
    buffers: Record<"occurrences" | "biases" | "penalties", GPUBuffer>,
    bound: BoundProgram,
  ) {
    this.#open = open;
    this.#vocabulary = vocabulary;
    this.#buffers = buffers;
    this.#bound = bound;
  }

  /** Throws KernelZooError: validate, compile, memory, run. */
  static async load(
    open: OpenDevice,
    vocabulary: number,
    { logits, chosen }: { readonly logits: GPUBuffer; readonly chosen: GPUBuffer },
  ): Promise<Adjuster> {
    const workgroups = Math.min(MOST_WORKGROUPS, Math.ceil(vocabulary / THREADS));
    const own = {
      candidate: "adjuster",
      bindings: {
        logits: "output",
        occurrences: "output",
        biases: "input",
        penalties: "input",
        chosen: "input",
      },
      dispatches: [
        { entry: "adjust", threads: THREADS, workgroups },
        { entry: "count", threads: 1, workgroups: 1 },
      ],
      code: textOf(vocabulary, workgroups),
    } as const;
    const program = await compileOwn(open, own, COMPILE_MS);
    return open.scoped(() => {
      const buffers = {
        occurrences: storageBuffer(open.device, vocabulary * WORD_BYTES),
        biases: storageBuffer(open.device, vocabulary * WORD_BYTES),
        penalties: storageBuffer(open.device, PENALTIES_BYTES),
      };
      const { occurrences, biases, penalties } = buffers;
      const bound = new BoundProgram(program, [logits, occurrences, biases, penalties, chosen]);
      return new Adjuster(open, vocabulary, buffers, bound);
    }, COMPILE_MS);
  }

  /** Says what is known where a text begins, or goes on in a cache that was filled anew. */
  begin(known: readonly KnownToken[]): void {
    const occurrences = new Uint32Array(this.#vocabulary);
    const biases = new Float32Array(this.#vocabulary);
    for (const { token, occurrences: count, bias } of known) {
      occurrences[token] = count;
      biases[token] = bias;
    }
    const { queue } = this.#open.device;
    queue.writeBuffer(this.#buffers.occurrences, 0, occurrences);
    queue.writeBuffer(this.#buffers.biases, 0, biases);
  }

  /** Says how much the logits of what is submitted next are adjusted. */
  write({ repetitionPenalty, frequencyPenalty, presencePenalty }: Sampling): void {
    const words = Float32Array.of(repetitionPenalty, frequencyPenalty, presencePenalty, 0);
    this.#open.device.queue.writeBuffer(this.#buffers.penalties, 0, words);
  }

  /** Adjusts the logits. */
  encode(pass: GPUComputePassEncoder): void {
    this.#bound.encode(pass, 0, this.#bound.slices - 1);
  }

  /** Counts the token that was chosen. */
  encodeCount(pass: GPUComputePassEncoder): void {
    this.#bound.encode(pass, this.#bound.slices - 1, this.#bound.slices);
  }
}
