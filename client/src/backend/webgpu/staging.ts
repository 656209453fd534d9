/** Outputs on their way from the GPU to the page. */
import type { Stored } from "../../executor/golden-tensors.js";
import { stagingBuffer } from "./buffers.js";

/** A copy, after some of the calls, of `bytes` bytes from `at` in `from` to `offset` in `to`. */
export interface BufferCopy {
  readonly from: GPUBuffer;
  readonly at: number;
  readonly to: GPUBuffer;
  readonly offset: number;
  readonly bytes: number;
}

/** A copy of a part of an output, after submission number `part` of a run. */
interface OutputCopy extends BufferCopy {
  readonly output: number;
  readonly part: number;
}

/** An output in its buffer, of which `bytes` are copied, a multiple of 4, after submission `part`. */
export interface GpuOutput {
  readonly part: number;
  readonly from: GPUBuffer;
  readonly bytes: number;
  readonly dtype: "f32" | "i32";
  readonly entries: number;
}

/**
 * Bytes of one staging buffer. Chromium copies what is mapped from its GPU process to the page: while
 * the page takes one buffer from there, the next one is copied.
 */
export const PIECE_BYTES = 4 << 20;
/** Buffers that are asked for before the first one is there. */
const AHEAD = 2;
/** Fresh memory of so many bytes is touched while the GPU computes. */
const TOUCHED_BYTES = 4 << 20;
/** The system gives memory by the page, when a page is written for the first time. */
const PAGE_ENTRIES = 4096 / Float32Array.BYTES_PER_ELEMENT;

/** A copy to a staging buffer, by its number. */
type Piece = Omit<OutputCopy, "to"> & { readonly buffer: number };

/**
 * Puts outputs one after another into buffers of at most so many bytes, the ones first that are
 * there first. Each submission of a run fills buffers of its own: the page takes them while the GPU
 * goes on.
 */
function piecesOf(outputs: readonly GpuOutput[], pieceBytes: number) {
  const sizes: number[] = [];
  const pieces: Piece[] = [];
  const order = [...outputs.entries()].sort(([, one], [, other]) => one.part - other.part);
  for (const [output, { from, bytes, part }] of order) {
    for (let at = 0; at < bytes; ) {
      const last = pieces.at(-1);
      if (last?.part !== part || sizes.at(-1) === pieceBytes) sizes.push(0);
      const buffer = sizes.length - 1;
      const offset = sizes[buffer] as number;
      const count = Math.min(bytes - at, pieceBytes - offset);
      pieces.push({ output, part, from, at, buffer, offset, bytes: count });
      sizes[buffer] = offset + count;
      at += count;
    }
  }
  return { sizes, pieces };
}

/** The staging buffers of one run. */
export class Staging {
  /** The copies in the order of the buffers that they fill. */
  readonly copies: readonly OutputCopy[];
  readonly #outputs: readonly GpuOutput[];
  readonly #buffers: readonly GPUBuffer[];
  readonly #queue: Pick<GPUQueue, "submit">;

  constructor(device: GPUDevice, outputs: readonly GpuOutput[], pieceBytes = PIECE_BYTES) {
    const { sizes, pieces } = piecesOf(outputs, pieceBytes);
    this.#outputs = outputs;
    this.#queue = device.queue;
    this.#buffers = sizes.map((size) => stagingBuffer(device, size));
    this.copies = pieces.map(({ buffer, ...copy }) => {
      return { ...copy, to: this.#buffers[buffer] as GPUBuffer };
    });
  }

  /**
   * Reads what work that has been submitted copies here: into the arrays `into` where they suit,
   * else into fresh ones. Each buffer is awaited by `settled`.
   */
  async read(
    into: readonly (Stored | undefined)[],
    settled: (mapped: Promise<void>) => Promise<void>,
  ): Promise<readonly Stored[]> {
    const mapping = this.#buffers.slice(0, AHEAD).map(mapped);
    const outputs = this.#roomFor(into);
    for (const [i, buffer] of this.#buffers.entries()) {
      await settled(mapping[i] as Promise<void>);
      const later = this.#buffers[i + AHEAD];
      if (later !== undefined) {
        mapping.push(mapped(later));
        this.#queue.submit([]); // The request leaves the page with what is submitted.
      }
      const held = buffer.getMappedRange();
      for (const { output, at, to, offset, bytes } of this.copies) {
        if (to !== buffer) continue;
        const taken = outputs[output] as Stored;
        const count = Math.min(bytes, taken.byteLength - at);
        const target = new Uint8Array(taken.buffer, taken.byteOffset + at, count);
        target.set(new Uint8Array(held, offset, count));
      }
      buffer.unmap();
    }
    return outputs;
  }

  /**
   * An array for each output. Fresh memory costs more than what is copied to it (1.4 GB/s against 5 in
   * Chromium on Linux), so its first part is touched now, while the GPU computes.
   */
  #roomFor(into: readonly (Stored | undefined)[]): readonly Stored[] {
    let left = TOUCHED_BYTES / Float32Array.BYTES_PER_ELEMENT;
    return this.#outputs.map(({ dtype, entries }, i) => {
      const Entries = dtype === "f32" ? Float32Array : Int32Array;
      const given = into[i];
      if (given instanceof Entries && given.length === entries) return given;
      const fresh = new Entries(entries);
      for (let at = 0; at < Math.min(entries, left); at += PAGE_ENTRIES) fresh[at] = 0;
      left -= entries;
      return fresh;
    });
  }
}

function mapped(buffer: GPUBuffer): Promise<void> {
  const mapping = buffer.mapAsync(GPUMapMode.READ);
  mapping.catch(() => undefined); // It may be that nobody awaits it, as one before it has failed.
  return mapping;
}
