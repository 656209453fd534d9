/** An engine that decodes, as the page sees it, and the peer's worker. */
import type { DecoderRequest, Machine } from "./request.js";

/** `tokenMs`: of a token after the first one. `logits`: behind the prompt, if the engine tells. */
export interface Generated {
  readonly tokens: readonly number[];
  readonly prefillMs: number;
  readonly tokenMs: number;
  readonly logits: Float32Array<ArrayBuffer> | null;
}

export interface Generator {
  /** The name of the engine, with its release. */
  readonly name: string;
  readonly threads: number;
  generate(prompt: readonly number[], tokens: number, interval: number): Promise<Generated>;
  dispose(): Promise<void>;
}

export type ToPeer =
  | { readonly type: "open"; readonly decoder: DecoderRequest; readonly machine: Machine }
  | { readonly type: "generate"; readonly prompt: readonly number[]; readonly tokens: number };

export type FromPeer =
  | { readonly type: "opened"; readonly name: string }
  | ({ readonly type: "generated" } & Generated)
  | { readonly type: "failed"; readonly message: string };

function ask<T extends FromPeer["type"]>(worker: Worker, question: ToPeer, type: T) {
  return new Promise<Extract<FromPeer, { type: T }>>((resolve, reject) => {
    worker.onerror = ({ message }) => reject(new Error(message || "the worker did not load"));
    worker.onmessage = ({ data }: MessageEvent<FromPeer>) => {
      if (data.type === type) resolve(data as Extract<FromPeer, { type: T }>);
      else reject(new Error(data.type === "failed" ? data.message : data.type));
    };
    worker.postMessage(question);
  });
}

/** onnxruntime-web in a worker of its own. */
export async function openPeer(decoder: DecoderRequest, machine: Machine): Promise<Generator> {
  const script = new URL("onnxruntime-decoder.js", document.baseURI);
  const worker = new Worker(script, { type: "module" });
  const { name } = await ask(worker, { type: "open", decoder, machine }, "opened");
  return {
    name,
    threads: machine.threads,
    generate: (prompt, tokens) => ask(worker, { type: "generate", prompt, tokens }, "generated"),
    dispose: async () => worker.terminate(),
  };
}
