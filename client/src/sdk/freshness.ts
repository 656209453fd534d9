/**
 * Signed manifests of before, replayed by whoever holds the way to the zoo: they may name kernels that
 * were denied since.
 */
import { storedNotebook } from "../device/notebook.js";
import type { Manifest } from "../wire/types.js";
import { signatureError } from "./signature.js";

/** Caches may hold a manifest for a day while the gateway is away; this leaves room for repairs. */
export const MAX_AGE_MS = 7 * 86_400_000;

const notes = storedNotebook();

/** Throws KernelZooError (signature) for what was signed more than `maxAgeMs` ago, or says not when. */
export function refuseAged({ issued_at: issued }: Manifest, maxAgeMs: number): void {
  if (Date.now() - Date.parse(issued) <= maxAgeMs) return;
  const days = maxAgeMs / 86_400_000;
  throw signatureError(
    `The manifest was signed at ${issued}, more than ${days} days ago by the clock of this device: ` +
      "a cache, or the clock, is wrong.",
  );
}

/**
 * What `read` gives, unless this browser has seen a later one of `url`: then it is asked for once more
 * past all caches, and refused if it still is of before. Throws KernelZooError (signature).
 */
export async function latest(url: URL, read: (url: URL) => Promise<Manifest>): Promise<Manifest> {
  const note = `serial:${url.origin}${url.pathname}`;
  const seen = Number(notes.read(note));
  let manifest = await read(url);
  if (!(manifest.serial >= seen)) {
    const current = new URL(url);
    current.searchParams.set("after", `${seen}`);
    manifest = await read(current);
  }
  const { serial } = manifest;
  if (!(serial >= seen)) {
    throw signatureError(
      `The manifest is of before one that this browser saw: ${serial} < ${seen}.`,
    );
  }
  if (serial > seen) notes.write(note, `${serial}`);
  return manifest;
}
