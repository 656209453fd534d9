/** Our decoder and onnxruntime-web's in turns, on WebGPU or on WebAssembly. */
import type { KernelZoo } from "../../../../client/src/sdk/zoo.js";
import type { Generator } from "./generator.js";
import type { Decoded, DecoderRequest, Machine } from "./request.js";

export const OURS = "kernelzoo";
/** A limit for devices that have plenty of memory. */
const MEMORY_BYTES = 16e9;

export async function openOurs(
  { zoo: file }: DecoderRequest,
  { backend, threads }: Machine,
): Promise<Generator> {
  const sdk = new URL("client/sdk.js", document.baseURI).href;
  const { KernelZoo: Zoo }: { KernelZoo: typeof KernelZoo } = await import(sdk);
  const bundle = new URL("zoo/bundle.json", document.baseURI);
  const zoo = await Zoo.open(bundle, { backend, threads });
  const model = await zoo.languageModel(file, { memoryBytes: MEMORY_BYTES });
  return {
    name: OURS,
    threads: model.stats().threads,
    generate: async (prompt, maxTokens, interval) => {
      model.rewind();
      const tokens: number[] = [];
      for await (const token of model.generate(prompt, { maxTokens, interval, stop: [] })) {
        tokens.push(token);
      }
      const { prefillMs, msPerToken } = model.stats();
      return { tokens, prefillMs, tokenMs: msPerToken ?? 0, logits: null };
    },
    dispose: async () => {
      await model.dispose();
      zoo.dispose();
    },
  };
}

/** Tokens that are alike in no two rounds. */
const promptOf = (length: number, vocabulary: number, round: number): readonly number[] =>
  Array.from({ length }, (_, i) => ((i + 1 + 97 * round) * 7919 + 13) % vocabulary);

/** `intervals`: tokens of ours that are fetched together. */
export async function contest(
  engines: readonly Generator[],
  { contexts, tokens, vocabulary }: DecoderRequest,
  rounds: number,
  intervals: readonly number[],
): Promise<readonly Decoded[]> {
  const found: { engine: Generator; decoded: Decoded & Record<string, unknown> }[] = [];
  for (const context of contexts) {
    for (const engine of engines) {
      for (const interval of engine.name === OURS ? intervals : [1]) {
        const [name, { threads }] = [engine.name.split(" ")[0] as string, engine];
        const decoded = { engine: name, threads, context, interval, prefillMs: [], tokenMs: [] };
        found.push({ engine, decoded });
      }
    }
  }
  for (let round = 0; round < rounds; round++) {
    for (const { engine, decoded } of found) {
      const prompt = promptOf(decoded.context, vocabulary, round);
      const made = await engine.generate(prompt, tokens + 1, decoded.interval);
      (decoded.prefillMs as number[]).push(made.prefillMs);
      (decoded.tokenMs as number[]).push(made.tokenMs);
    }
  }
  return found.map(({ decoded }) => decoded);
}

/** How many of the first tokens are the same. */
export function sameTokens(left: readonly number[], right: readonly number[]): number {
  const apart = left.findIndex((id, i) => id !== right[i]);
  return apart < 0 ? left.length : apart;
}
