/**
 * onnxruntime-web decodes as transformers.js drives it: on a GPU keys and values stay there from step
 * to step, ids and masks are made for each, and the likeliest token is found in the logits that were
 * read back.
 */
import * as ort from "onnxruntime-web/jspi";
import { now } from "../../../client/src/timing/clock.js";
import type { FromPeer, Generated, ToPeer } from "./decode/generator.js";
import type { DecoderRequest, Machine } from "./decode/request.js";
import { bytesAt } from "./models/network.js";

type Feeds = Record<string, ort.Tensor>;

const PAST = "past_key_values";

function placeOf(entries: Float32Array): number {
  let place = 0;
  for (let i = 1; i < entries.length; i++) {
    if ((entries[i] as number) > (entries[place] as number)) place = i;
  }
  return place;
}

class PeerDecoder {
  readonly #session: ort.InferenceSession;
  readonly #decoder: DecoderRequest;
  readonly #caches: readonly string[];

  private constructor(
    session: ort.InferenceSession,
    decoder: DecoderRequest,
    caches: readonly string[],
  ) {
    this.#session = session;
    this.#decoder = decoder;
    this.#caches = caches;
  }

  static async open(decoder: DecoderRequest, { backend, threads }: Machine): Promise<PeerDecoder> {
    ort.env.wasm.numThreads = threads;
    const layers = Array.from({ length: decoder.layers }, (_, layer) => layer);
    const caches = layers.flatMap((layer) => [`${layer}.key`, `${layer}.value`]);
    const kept = caches.map((cache) => [`present.${cache}`, "gpu-buffer"] as const);
    const session = await ort.InferenceSession.create(new Uint8Array(await bytesAt(decoder.onnx)), {
      executionProviders: [backend],
      graphOptimizationLevel: "all",
      ...(backend === "webgpu" ? { preferredOutputLocation: Object.fromEntries(kept) } : {}),
    });
    return new PeerDecoder(session, decoder, caches);
  }

  async generate(prompt: readonly number[], tokens: number): Promise<Generated> {
    let past = this.#empty();
    const found: number[] = [];
    let given = prompt;
    let total = 0;
    let logits: Float32Array<ArrayBuffer> | null = null;
    const start = now();
    let first = start;
    while (found.length < tokens) {
      total += given.length;
      const outputs = await this.#session.run(this.#feeds(given, total, past));
      for (const held of Object.values(past)) held.dispose();
      const present = (cache: string): ort.Tensor => outputs[`present.${cache}`] as ort.Tensor;
      past = Object.fromEntries(this.#caches.map((name) => [`${PAST}.${name}`, present(name)]));
      const entries = (outputs.logits as ort.Tensor).data as Float32Array;
      const token = placeOf(entries);
      found.push(token);
      given = [token];
      if (logits !== null) continue;
      logits = entries.slice();
      first = now();
    }
    const tokenMs = (now() - first) / Math.max(1, tokens - 1);
    for (const held of Object.values(past)) held.dispose();
    return { tokens: found, prefillMs: first - start, tokenMs, logits };
  }

  #empty(): Feeds {
    const { kvHeads, headDim } = this.#decoder;
    return Object.fromEntries(
      this.#caches.map((cache) => {
        const entries = new Float32Array(0);
        return [`${PAST}.${cache}`, new ort.Tensor("float32", entries, [1, kvHeads, 0, headDim])];
      }),
    );
  }

  #feeds(ids: readonly number[], total: number, past: Feeds): Feeds {
    const row = (entries: BigInt64Array): ort.Tensor => {
      return new ort.Tensor("int64", entries, [1, entries.length]);
    };
    return {
      input_ids: row(BigInt64Array.from(ids, BigInt)),
      attention_mask: row(new BigInt64Array(total).fill(1n)),
      ...past,
    };
  }
}

ort.env.wasm.wasmPaths = new URL("onnxruntime-web/", location.href).href;
ort.env.logLevel = "error";

let opened: PeerDecoder | null = null;

globalThis.onmessage = async ({ data }: MessageEvent<ToPeer>): Promise<void> => {
  const answer = (message: FromPeer): void => postMessage(message);
  try {
    if (data.type === "open") {
      opened = await PeerDecoder.open(data.decoder, data.machine);
      answer({ type: "opened", name: `onnxruntime-web ${ort.env.versions.web ?? ""}` });
    } else if (opened !== null) {
      answer({ type: "generated", ...(await opened.generate(data.prompt, data.tokens)) });
    }
  } catch (thrown) {
    answer({ type: "failed", message: String(thrown) });
  }
};
