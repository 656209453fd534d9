/** The functions of a model's kernels: of the linked module, and of single ones that replace some. */
import { download } from "../../engine/download.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { refuseChanged } from "../../weights/stream.js";
import { addressOf, type ModelAnswer } from "../../wire/model-answer.js";
import type { KernelWire } from "../../wire/types.js";
import { type KernelFile, kernelFiles } from "./kernel-files.js";

/** `main` of ABI 1: addresses, then a range. */
export type Main = (...words: readonly number[]) => void;

/** A module, and which export is which artifact. */
export interface Linked {
  readonly module: WebAssembly.Module;
  readonly functions: Readonly<Record<string, string>>;
}

/**
 * Compiles a file while it arrives: browsers keep the optimised code of what has an address, and
 * start with it at the next visit. A clone of the answer is what the hash is taken of. Throws
 * KernelZooError: network, artifact, validate.
 */
async function compileFile(file: KernelFile, origin: string): Promise<WebAssembly.Module> {
  const url = addressOf(file.url, origin);
  const [bytes, streamed] = await download(url, async (response) => {
    const copy = response.clone();
    // Browsers refuse a file that its host calls something else than application/wasm.
    const module = WebAssembly.compileStreaming(response).catch(() => null);
    return [new Uint8Array(await copy.arrayBuffer()), await module] as const;
  });
  await refuseChanged(bytes, file.sha256, url);
  try {
    return streamed ?? (await WebAssembly.compile(bytes));
  } catch (cause) {
    throw new KernelZooError("validate", `This browser rejects ${url}: ${sentence(cause)}`, cause);
  }
}

/**
 * Modules that together have all of `kernels` and their pack kernels.
 * Throws KernelZooError: network, artifact, validate.
 */
export async function loadKernels(
  answer: Pick<ModelAnswer, "module">,
  kernels: readonly KernelWire[],
  origin: string,
): Promise<readonly Linked[]> {
  return Promise.all(
    kernelFiles(answer, kernels).map(async (file) => ({
      module: await compileFile(file, origin),
      functions: file.functions,
    })),
  );
}

/** Functions by the hash of their artifact. Throws KernelZooError (compile). */
export function instantiateAll(
  modules: readonly Linked[],
  memory: WebAssembly.Memory,
): ReadonlyMap<string, Main> {
  try {
    const named = modules.flatMap(({ module, functions }) => {
      const { exports } = new WebAssembly.Instance(module, { env: { memory } });
      return Object.entries(functions).map(
        ([artifact, name]) => [artifact, exports[name] as Main] as const,
      );
    });
    return new Map(named);
  } catch (cause) {
    const message = `The kernels do not start: ${sentence(cause)}`;
    throw new KernelZooError("compile", message, cause);
  }
}
