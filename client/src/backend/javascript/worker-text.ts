/**
 * The text of the worker of a model that runs in JavaScript: its kernels, held to their hashes, and
 * the runtime. Nothing is evaluated, and the page's policy has to allow no address: the worker is a
 * blob, as that of every model.
 */
import { KernelZooError } from "../../engine/error.js";
import type { Answered } from "../../model/request.js";
import { hashOf } from "../../sdk/manifest.js";
import { addressOf } from "../../wire/model-answer.js";
import runtime from "./worker.js?parts";

/** Rejects with KernelZooError: network, artifact. */
async function textOf(address: URL, sha256: string) {
  const response = await fetch(address).catch((cause: unknown) => {
    const message = `No answer from ${address.origin}. Is it running?`;
    throw new KernelZooError("network", message, cause);
  });
  const text = await response.text();
  if (response.ok && hashOf(text) === sha256) return text;
  const message = `${address} answered ${response.status}, or what the manifest does not say.`;
  throw new KernelZooError("artifact", message);
}

/** Statements of a module that are no exports: each of its kernels is a name then. */
const stated = (module: string): string => module.replaceAll(/^export /gm, "");

/** Throws KernelZooError: network, artifact. */
export async function sourceOf({ answer, origin }: Answered): Promise<string> {
  const kernels = Object.values(answer.kernels).map(({ kernel }) => kernel);
  const { module } = answer;
  const single = new Map(kernels.map((kernel) => [kernel.sha256, kernel] as const));
  const texts =
    module === null
      ? await Promise.all(
          [...single.values()].map(async (kernel, i) =>
            stated(await textOf(addressOf(kernel.url, origin), kernel.sha256)).replace(
              "main",
              `f${i}`,
            ),
          ),
        )
      : [stated(await textOf(addressOf(module.url, origin), module.sha256))];
  const names =
    module?.functions ?? Object.fromEntries([...single.keys()].map((s, i) => [s, `f${i}`]));
  const listed = Object.entries(names).map(([sha256, name]) => `"${sha256}": ${name}`);
  return `${texts.join("")}globalThis.kernels = { ${listed.join(", ")} };\n${runtime}`;
}

/**
 * An answer for JavaScript. `why` there is no WebAssembly is the reason that the model tells. Throws
 * KernelZooError (compile) for a file of kernels of WebAssembly.
 */
export function inPlace(why: string, answered: Answered): Answered {
  if (answered.answer.device_class.includes(":wasm")) {
    throw new KernelZooError("compile", why);
  }
  return { ...answered, reason: why };
}

export default runtime;
