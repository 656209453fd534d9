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
  const entries = contexts.flatMap((context) =>
    engines.flatMap((engine) =>
      (engine.name === OURS ? intervals : [1]).map((interval) => ({
        ...{ engine, context, interval },
        prefillMs: [] as number[],
        tokenMs: [] as number[],
      })),
    ),
  );
  for (let round = 0; round < rounds; round++) {
    for (const { engine, context, interval, prefillMs, tokenMs } of entries) {
      const prompt = promptOf(context, vocabulary, round);
      const made = await engine.generate(prompt, tokens + 1, interval);
      prefillMs.push(made.prefillMs);
      tokenMs.push(made.tokenMs);
    }
  }
  return entries.map(({ engine: { name, threads }, ...entry }) => ({
    ...entry,
    threads,
    // Without its release.
    engine: name.split(" ")[0] as string,
  }));
}

/** Counts the first tokens that are the same. */
export function sameTokens(left: readonly number[], right: readonly number[]): number {
  const apart = left.findIndex((id, i) => id !== right[i]);
  return apart < 0 ? left.length : apart;
}
