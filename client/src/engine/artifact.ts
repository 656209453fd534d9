/** Fetches kernels and holds them to their hashes. */

import type { ArtifactWire } from "../wire/types.js";
import type { Bytes } from "./bytes.js";
import { download } from "./download.js";
import { KernelZooError } from "./error.js";
import { digestOf } from "./sha256.js";

const bytesOf = async (response: Response): Promise<Bytes> =>
  new Uint8Array(await response.arrayBuffer());

/**
 * Fetches the bytes of `artifact` from `origin` and holds them to the manifest's SHA-256.
 * Throws KernelZooError: network, artifact (status or hash), with the reason; and an abort of the
 * page's own.
 */
export async function fetchArtifact(
  origin: URL,
  artifact: Pick<ArtifactWire, "sha256" | "url">,
  signal?: AbortSignal,
): Promise<Bytes> {
  // Relative, so that a bundle may lie in any folder.
  const url = new URL(artifact.url.replace(/^\//, "./"), origin);
  const bytes = await download(url, bytesOf, signal);
  const digest = await digestOf(bytes);
  if (digest !== artifact.sha256) {
    const why = "A proxy changed it or sent a page.";
    const message = `${url} has SHA-256 ${digest}, not what the manifest says. ${why}`;
    throw new KernelZooError("artifact", message);
  }
  return bytes;
}

/** Fetches an artifact that is text: WGSL, or a module of JavaScript. Throws as `fetchArtifact`. */
export const fetchText = async (...asked: Parameters<typeof fetchArtifact>): Promise<string> =>
  new TextDecoder().decode(await fetchArtifact(...asked));
