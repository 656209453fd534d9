/**
 * The text of the worker of a model that runs in JavaScript: its kernels, held to their hashes, and
 * the runtime. Nothing is evaluated, and the page's policy has to allow no address: the worker is a
 * blob, as that of every model.
 */
import type { ArtifactWire } from "../../wire/types.js";
import { addressOf } from "../answer.js";
import type { Host } from "../host.js";
import type { Answered } from "../request.js";
import runtime from "./worker.js?inlined";

type Addressed = Pick<ArtifactWire, "url" | "sha256">;

/** Rejects with KernelZooError: network, artifact. */
async function textOf({ tools }: Host, { url, sha256 }: Addressed, origin: string) {
  const address = addressOf(url, origin);
  const response = await fetch(address).catch((cause: unknown) => {
    const message = `No answer from ${address.origin}. Is it running?`;
    throw new tools.KernelZooError("network", message, cause);
  });
  const text = await response.text();
  if (response.ok && tools.hashOf(text) === sha256) return text;
  const message = `${address} answered ${response.status}, or what the manifest does not say.`;
  throw new tools.KernelZooError("artifact", message);
}

/** Statements of a module that are no exports: each of its kernels is a name then. */
const stated = (module: string): string => module.replaceAll(/^export /gm, "");

/** Throws KernelZooError: network, artifact. */
export async function sourceOf(host: Host, { answer, origin }: Answered): Promise<string> {
  const kernels = Object.values(answer.kernels).map(({ kernel }) => kernel);
  const { module } = answer;
  const single = new Map(kernels.map((kernel) => [kernel.sha256, kernel] as const));
  const texts =
    module === null
      ? await Promise.all(
          [...single.values()].map(async (kernel, i) =>
            stated(await textOf(host, kernel, origin)).replace("main", `f${i}`),
          ),
        )
      : [stated(await textOf(host, module, origin))];
  const names =
    module?.functions ?? Object.fromEntries([...single.keys()].map((s, i) => [s, `f${i}`]));
  const listed = Object.entries(names).map(([sha256, name]) => `"${sha256}": ${name}`);
  return `${texts.join("")}globalThis.kernels = { ${listed.join(", ")} };\n${runtime}`;
}
