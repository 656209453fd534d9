/**
 * Weights that lie in their file in fewer bits: chunks are inflated as they arrive, and entries become
 * f32 piece by piece, so that no second copy of a weight is held. kernelzoo/domain/weight_storage.py
 * says what the types mean.
 */
import type { Bytes } from "../engine/bytes.js";
import { KernelZooError } from "../engine/error.js";
import { fromFloat16 } from "../engine/float16.js";
import { productOf } from "../engine/tensors.js";
import type { ChunkWire, PlanWire, StorageWire, WeightWire } from "../wire/model-answer.js";
import type { FileReading } from "./loader.js";
import { type PlacedChunk, placedChunks, type TakeBytes } from "./stream.js";

/** Entries that are unpacked at once; they stay in a core's nearest caches. */
const PIECE_ENTRIES = 1 << 13;
const BLOCK_ENTRIES = 32;
const INT4_ZERO = 8;

/** `take` is given weights as they lie plain, in pieces that the next ones overwrite. */
export function unpacking(plan: PlanWire, take: TakeBytes): FileReading {
  const weights = plan.weights.map((weight) => new StoredEntries(weight));
  const chunks = placedChunks(plan.chunks);
  return {
    take: async (offset, bytes) => {
      const { chunk, start } = chunks.find((placed) => placed.offset === offset) as PlacedChunk;
      const inflated = await inflatedChunk(chunk, bytes);
      for (const weight of weights) {
        for (const [at, piece] of weight.pieces(start, inflated)) await take(at, piece);
      }
    },
    from: (index) => {
      const stored = plan.weights[index]?.storage?.offset ?? Number.POSITIVE_INFINITY;
      const last = chunks.findLast(({ start }) => start <= stored);
      return stored === Number.POSITIVE_INFINITY ? stored : (last?.offset ?? 0);
    },
  };
}

/** Throws KernelZooError (artifact) for a chunk that is no deflated one of its length. */
async function inflatedChunk({ inflated }: ChunkWire, bytes: Bytes): Promise<Bytes> {
  if (inflated === undefined) return bytes;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const whole = new Uint8Array(await new Response(stream).arrayBuffer());
    if (whole.length === inflated) return whole;
  } catch {
    // It is refused like one of another length.
  }
  throw new KernelZooError(
    "artifact",
    "A chunk of the weights cannot be inflated. Import the model again.",
  );
}

/** Bytes of an entry. */
const CODE_BYTES: Readonly<Record<StorageWire["type"], number>> = {
  plain: 4,
  f16: 2,
  int8: 1,
  int4: 0.5,
};

/** The entries of one weight, of whatever part of its bytes comes next. */
class StoredEntries {
  readonly #weight: WeightWire;
  readonly #storage: StorageWire;
  /** Scales, which come before the entries. */
  readonly #head: Bytes;
  #scales: Float32Array | null = null;

  constructor(weight: WeightWire) {
    this.#weight = weight;
    this.#storage = weight.storage as StorageWire;
    const { bytes, type } = this.#storage;
    const codes = Math.ceil((weight.bytes / 4) * CODE_BYTES[type]);
    this.#head = new Uint8Array(bytes - codes);
  }

  /**
   * Yields where plain entries belong, and their bytes, of a part of the file from byte `start` on.
   */
  *pieces(start: number, file: Bytes): Generator<readonly [number, Bytes], void> {
    const { offset, bytes, type } = this.#storage;
    const from = Math.max(0, start - offset);
    const to = Math.min(bytes, start + file.length - offset);
    if (from >= to) return;
    const own = file.subarray(from + offset - start, to + offset - start);
    const head = Math.min(Math.max(0, this.#head.length - from), own.length);
    if (head > 0) this.#head.set(own.subarray(0, head), from);
    const step = PIECE_ENTRIES * CODE_BYTES[type];
    for (let at = head; at < own.length; at += step) {
      const first = (from + at - this.#head.length) / CODE_BYTES[type];
      yield [this.#weight.offset + 4 * first, this.#plain(own.subarray(at, at + step), first)];
    }
  }

  #plain(codes: Bytes, first: number): Bytes {
    const { type, axis = 0 } = this.#storage;
    const { shape, bytes } = this.#weight;
    const { buffer, byteOffset, length } = codes;
    switch (type) {
      case "plain":
        return codes;
      case "f16":
        return bytesOf(fromFloat16(new Uint16Array(buffer, byteOffset, length / 2)));
      case "int8": {
        this.#scales ??= new Float32Array(this.#head.buffer);
        const inner = productOf(shape.slice(axis + 1));
        return bytesOf(
          ofInt8(new Int8Array(buffer, byteOffset, length), first, this.#scales, inner),
        );
      }
      case "int4":
        this.#scales ??= fromFloat16(new Uint16Array(this.#head.buffer));
        return bytesOf(ofInt4(codes, first, this.#scales, Math.min(2 * length, bytes / 4 - first)));
    }
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array<ArrayBuffer>): Bytes =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** The entries that were unpacked last; memory of its own for each piece would be given back late. */
const piece = new Float32Array(PIECE_ENTRIES);

/** A channel has `inner` entries, and that of the last scale is followed by that of the first. */
function ofInt8(codes: Int8Array, first: number, scales: Float32Array, inner: number) {
  const entries = piece.subarray(0, codes.length);
  let channel = Math.floor(first / inner) % scales.length;
  let next = inner - (first % inner);
  for (let i = 0; i < codes.length; ) {
    if (inner === 1) {
      // Columns: the scales of a row one after the other, without a loop for each.
      const behind = channel - i;
      for (const end = Math.min(codes.length, scales.length - behind); i < end; i++) {
        entries[i] = (codes[i] as number) * (scales[behind + i] as number);
      }
      channel = 0;
    } else {
      const scale = scales[channel] as number;
      for (const end = Math.min(codes.length, next); i < end; i++) {
        entries[i] = (codes[i] as number) * scale;
      }
      next += inner;
      channel = channel + 1 < scales.length ? channel + 1 : 0;
    }
  }
  return entries;
}

function ofInt4(codes: Bytes, first: number, scales: Float32Array, count: number) {
  const entries = piece.subarray(0, count);
  for (let i = 0; i < count; i++) {
    const pair = codes[i >> 1] as number;
    const code = (i % 2 === 0 ? pair & 15 : pair >> 4) - INT4_ZERO;
    entries[i] = code * (scales[Math.floor((first + i) / BLOCK_ENTRIES)] as number);
  }
  return entries;
}
