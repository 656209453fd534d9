/**
 * Language models on WebAssembly: our decoder beside onnxruntime-web's, in turns. It reads `job.json`
 * beside the page; `kernelzooWasmDecoding.run()` answers what was measured.
 */
import { contest, openOurs, sameTokens } from "./decode/contest.js";
import { type Generator, openPeer } from "./decode/generator.js";
import type {
  DecoderRequest,
  Machine,
  WasmDecoded,
  WasmDecodingAnswer,
  WasmDecodingJob,
} from "./decode/request.js";
import { bytesAt, relativeDifference } from "./models/network.js";

const INTERVALS = [1];

/** Both on so many threads, in the order in which they are compared. */
async function opened(asked: DecoderRequest, threads: number): Promise<readonly Generator[]> {
  const machine: Machine = { backend: "wasm", threads };
  return [await openOurs(asked, machine), await openPeer(asked, machine)];
}

async function measured(asked: DecoderRequest, job: WasmDecodingJob): Promise<WasmDecoded> {
  const engines: Generator[] = [];
  for (const threads of job.threads) engines.push(...(await opened(asked, threads)));
  const ours = engines[0] as Generator;

  // 1. On the golden prompt, whose logits ours was held to when it was opened. The peer is timed as
  // it is shipped, with activations of 8 bits, and compared without.
  const exact = await openPeer({ ...asked, onnx: asked.exact }, { backend: "wasm", threads: 1 });
  const right = new Float32Array<ArrayBuffer>(await bytesAt(asked.logits));
  const own = await ours.generate(asked.prompt, asked.tokens, 1);
  const { tokens, logits } = await exact.generate(asked.prompt, asked.tokens, 1);
  if (logits === null) throw new Error("The peer tells no logits.");
  await exact.dispose();
  console.log(`${asked.name} is timed`);

  // 2. All in turns.
  const decoded = await contest(engines, asked, job.rounds, INTERVALS);
  for (const engine of engines) await engine.dispose();
  return {
    name: asked.name,
    tokens: asked.tokens,
    sameTokens: sameTokens(own.tokens, tokens),
    difference: relativeDifference({ logits }, { logits: right }),
    decoded,
  };
}

async function run(): Promise<WasmDecodingAnswer> {
  const job = (await (await fetch("job.json")).json()) as WasmDecodingJob;
  const decoders: WasmDecoded[] = [];
  for (const asked of job.decoders) decoders.push(await measured(asked, job));
  return { decoders };
}

Object.assign(globalThis, { kernelzooWasmDecoding: { run } });
