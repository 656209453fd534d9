/** Outputs on their way from the GPU to the page. */
import { stagingBuffer } from "../../gpu/buffers.js";
import type { Stored } from "../golden.js";

/** What is copied once some of the calls have run: so many bytes, from `at` in `from` on. */
export interface Copy {
  readonly from: GPUBuffer;
  readonly at: number;
  readonly to: GPUBuffer;
  readonly offset: number;
  readonly bytes: number;
}

interface OutputCopy extends Copy {
  readonly output: number;
}

/** An output in its buffer, of which `bytes` are copied, a multiple of 4. */
export interface GpuOutput {
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

/** The staging buffers of one run. */
export class Staging {
  /** In the order of the buffers that they fill. */
  readonly copies: readonly OutputCopy[];
  readonly #outputs: readonly GpuOutput[];
  readonly #buffers: readonly GPUBuffer[];
  readonly #queue: Pick<GPUQueue, "submit">;

  constructor(device: GPUDevice, outputs: readonly GpuOutput[], pieceBytes = PIECE_BYTES) {
    const copies: OutputCopy[] = [];
    const total = outputs.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#outputs = outputs;
    this.#queue = device.queue;
    this.#buffers = Array.from({ length: Math.max(1, Math.ceil(total / pieceBytes)) }, (_, i) =>
      stagingBuffer(device, Math.min(pieceBytes, total - i * pieceBytes)),
    );
    let begin = 0;
    for (const [output, { from, bytes }] of outputs.entries()) {
      for (let at = 0; at < bytes; ) {
        const offset = (begin + at) % pieceBytes;
        const to = this.#buffers[Math.floor((begin + at) / pieceBytes)] as GPUBuffer;
        const count = Math.min(bytes - at, pieceBytes - offset);
        copies.push({ output, from, at, to, offset, bytes: count });
        at += count;
      }
      begin += bytes;
    }
    this.copies = copies;
  }

  /**
   * What was copied here by work that has been submitted: in the arrays `into`, where they suit. Each
   * buffer is awaited by `settled`.
   */
  async read(
    into: readonly (Stored | undefined)[],
    settled: (mapped: Promise<void>) => Promise<void>,
  ): Promise<readonly Stored[]> {
    const mapping = this.#buffers.slice(0, AHEAD).map(mapped);
    const found = this.#roomFor(into);
    for (const [i, buffer] of this.#buffers.entries()) {
      await settled(mapping[i] as Promise<void>);
      const later = this.#buffers[i + AHEAD];
      if (later !== undefined) {
        mapping.push(mapped(later));
        this.#queue.submit([]); // What is asked for leaves the page with what is submitted.
      }
      const held = buffer.getMappedRange();
      for (const { output, at, to, offset, bytes } of this.copies) {
        if (to !== buffer) continue;
        const taken = found[output] as Stored;
        const count = Math.min(bytes, taken.byteLength - at);
        const target = new Uint8Array(taken.buffer, taken.byteOffset + at, count);
        target.set(new Uint8Array(held, offset, count));
      }
      buffer.unmap();
    }
    return found;
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
