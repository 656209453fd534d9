/** The functions of a model's kernels: of the linked module, and of single ones that replace some. */
import { download } from "../engine/artifact.js";
import { KernelZooError, sentence } from "../engine/error.js";
import type { ArtifactWire, KernelWire } from "../wire/types.js";
import { addressOf, type ModelAnswer } from "./answer.js";
import { partsOf } from "./artifacts.js";
import { refuseChanged } from "./stream.js";

/** `main` of ABI 1: addresses, then a range. */
export type Main = (...words: readonly number[]) => void;

/** What is fetched, and its hash. */
type Addressed = Pick<ArtifactWire, "sha256" | "url">;

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
async function compileFile(file: Addressed, origin: string): Promise<WebAssembly.Module> {
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
  const { module } = answer;
  const functions = module?.functions ?? {};
  const parts = new Map(kernels.flatMap(partsOf).map((part) => [part.sha256, part] as const));
  const alone = [...parts.values()].filter(({ sha256 }) => !Object.hasOwn(functions, sha256));
  const linked = async (file: Addressed, own: Linked["functions"]): Promise<Linked> => ({
    module: await compileFile(file, origin),
    functions: own,
  });
  return Promise.all([
    ...(module === null || alone.length === parts.size ? [] : [linked(module, functions)]),
    ...alone.map((part) => linked(part, { [part.sha256]: "main" })),
  ]);
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
