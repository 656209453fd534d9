/**
 * The text of the worker of a model that runs in JavaScript: its kernels, held to their hashes, and
 * the runtime. Nothing is evaluated, and the page's policy has to allow no address: the worker is a
 * blob, as that of every model.
 */
import { fetchText } from "../../engine/artifact.js";
import { KernelZooError } from "../../engine/error.js";
import type { Answered } from "../../model/request.js";
import { kernelFiles } from "../wasm/kernel-files.js";
import runtime from "./worker.js?parts";

/** Statements of a module that are no exports: each of its kernels is a name then. */
const stated = (module: string): string => module.replaceAll(/^export /gm, "");

/** Throws KernelZooError: network, artifact. */
export async function sourceOf({ answer, origin }: Answered): Promise<string> {
  const kernels = Object.values(answer.kernels).map(({ kernel }) => kernel);
  const listed: string[] = [];
  const texts = await Promise.all(
    kernelFiles(answer, kernels).map(async (file, i) => {
      const text = stated(await fetchText(new URL(origin), file));
      // A file of one kernel calls it `main`, as all such files do.
      const own = file === answer.module ? undefined : `single${i}`;
      for (const [sha256, name] of Object.entries(file.functions)) {
        listed.push(`"${sha256}": ${own ?? name}`);
      }
      return own === undefined ? text : text.replace("main", own);
    }),
  );
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
