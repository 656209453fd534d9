import { download } from "../engine/download.js";
import { Sha256 } from "../engine/sha256.js";
import { viewOf } from "../engine/tensors.js";
import { changedFile } from "../weights/stream.js";
import { addressOf, type GoldenPart, type PortWire } from "../wire/model-answer.js";
import type { Stored } from "./golden-tensors.js";
import type { LoadOrder } from "./messages.js";

/** Bytes that are read at once; they are copied in a fraction of a millisecond. */
const PIECE_BYTES = 1 << 20;
/** Bytes that are hashed at once. */
const HASHED_BYTES = 1 << 15;

/**
 * The golden inputs and outputs of a model, fetched once, when they are first needed. The browser keeps
 * them outside of the page (GPT-2 has 77 MB of logits), and they are read piece by piece: nothing of it
 * stands before an inference for long.
 */
export class GoldenFile {
  readonly #order: LoadOrder;
  readonly #rest: () => Promise<void>;
  #file: Blob | null = null;

  constructor(order: LoadOrder, rest: () => Promise<void>) {
    this.#order = order;
    this.#rest = rest;
  }

  /** Throws KernelZooError: network, artifact. */
  async inputs(): Promise<readonly Stored[]> {
    const { inputs, golden } = this.#order.answer.plan;
    const file = await this.#verified();
    return Promise.all(golden.inputs.map((part, i) => read(file, inputs[i], part)));
  }

  /**
   * Yields an output from its beginning on, with a rest after each piece. Throws as `inputs` does.
   */
  async *output(number: number): AsyncGenerator<Stored> {
    const { outputs, golden } = this.#order.answer.plan;
    const file = await this.#verified();
    const { offset, bytes } = golden.outputs[number] as GoldenPart;
    for (let from = 0; from < bytes; from += PIECE_BYTES) {
      const part = { offset: offset + from, bytes: Math.min(PIECE_BYTES, bytes - from) };
      yield await read(file, outputs[number], part);
      await this.#rest();
    }
  }

  async #verified(): Promise<Blob> {
    if (this.#file !== null) return this.#file;
    const { answer, origin } = this.#order;
    const url = addressOf(answer.golden.url, origin);
    const file = await download(url, (response) => response.blob());
    if ((await this.#digestOf(file)) !== answer.plan.golden.sha256) throw changedFile(url);
    this.#file = file;
    return file;
  }

  async #digestOf(file: Blob): Promise<string> {
    const digest = new Sha256();
    for (let from = 0; ; from += PIECE_BYTES) {
      const piece = new Uint8Array(await file.slice(from, from + PIECE_BYTES).arrayBuffer());
      for (let at = 0; at < piece.length || piece.length === 0; at += HASHED_BYTES) {
        await this.#rest();
        const part = piece.subarray(at, at + HASHED_BYTES);
        if (from + at + part.length >= file.size) return digest.hex(part);
        digest.add(part);
      }
    }
  }
}

type FilePart = Pick<GoldenPart, "offset" | "bytes">;

async function read(file: Blob, port: PortWire | undefined, part: FilePart): Promise<Stored> {
  const bytes = await file.slice(part.offset, part.offset + part.bytes).arrayBuffer();
  return viewOf(bytes, port?.dtype === "float32" ? "f32" : "i32", 0, part.bytes / 4) as Stored;
}
