/**
 * What a page that pins keys believes: manifests that one of the keys has signed, by the platform's
 * Ed25519; none that is too old; and none that precedes one which this browser saw, as whoever
 * holds the way to the zoo may replay it to bring back kernels that were denied since.
 */
import { storedNotebook } from "../device/notebook.js";
import { fromBase64 } from "../engine/bytes.js";
import { KernelZooError } from "../engine/error.js";
import type { Manifest } from "../wire/types.js";

/** Public keys of which one must have signed; null where the page pins none. */
export type Pins = readonly string[] | null;

const KEY = /^[\w-]{43}$/;
const SIGNATURE = /^[\w-]{86}$/;
/** Begins the last member of a manifest, which is not signed itself. */
const MEMBER = ',"signatures":';
const ALGORITHM = "Ed25519";

const bytesOf = (text: string) => fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"));

export const signatureError = (message: string, cause?: unknown): KernelZooError =>
  new KernelZooError("signature", message, cause);

/** Throws KernelZooError (signature) for a pin that is no key. */
export function pinsOf(keys: readonly string[] | undefined): Pins {
  const wrong = keys?.find((key) => !KEY.test(key));
  if (wrong === undefined) return keys ?? null;
  throw signatureError(`${wrong} is no key of a zoo: see its /v1/signing-keys.`);
}

async function verify(key: string, signature: string, signed: Uint8Array<ArrayBuffer>) {
  if (globalThis.crypto?.subtle === undefined) {
    throw signatureError("Keys need a secure context: serve this page by https.");
  }
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", bytesOf(key), ALGORITHM, false, ["verify"]);
  } catch (cause) {
    const since = "Chromium 137, Firefox 129, Safari 17";
    throw signatureError(`This browser cannot check ${ALGORITHM}; ${since} can.`, cause);
  }
  return crypto.subtle.verify(ALGORITHM, imported, bytesOf(signature), signed);
}

/** A manifest, or the answer for a model. */
export type Signed = Pick<Manifest, "issued_at" | "serial" | "signatures">;
type Signatures = Signed["signatures"];

async function signedBy(pins: readonly string[], made: Signatures, document: string) {
  const signed = new TextEncoder().encode(document);
  for (const { key, signature } of made) {
    if (!pins.includes(key) || !SIGNATURE.test(signature)) continue;
    if (await verify(key, signature, signed)) return true;
  }
  return false;
}

/**
 * The manifest that `text` is. Where the page pins keys, only what one of them has signed is
 * read: the members before the last. Throws KernelZooError (signature).
 */
export async function openManifest<Document extends Signed = Manifest>(
  text: string,
  pins: Pins,
): Promise<Document> {
  if (pins === null) return JSON.parse(text) as Document;
  const end = text.lastIndexOf(MEMBER);
  if (end < 0) throw signatureError("The manifest is not signed.");
  const document = `${text.slice(0, end)}}`;
  const { signatures } = JSON.parse(`{${text.slice(end + 1)}`) as Pick<Manifest, "signatures">;
  if (!(await signedBy(pins, signatures, document))) {
    const by = signatures.map(({ key }) => key).join();
    const why = "Somebody changed it, or the zoo has new keys: see its /v1/signing-keys.";
    throw signatureError(`No valid signature of a pinned key, but of: ${by}. ${why}`);
  }
  return { ...JSON.parse(document), signatures } as Document;
}

/** Caches may hold a manifest for a day while the gateway is away; this leaves room for repairs. */
export const MAX_AGE_MS = 7 * 86_400_000;

export const notes = storedNotebook();

/**
 * Throws KernelZooError (signature) for a manifest that was signed more than `maxAgeMs` ago or has
 * no date.
 */
export function refuseAged({ issued_at: issued }: Signed, maxAgeMs: number): void {
  if (Date.now() - Date.parse(issued) <= maxAgeMs) return;
  const days = maxAgeMs / 86_400_000;
  throw signatureError(
    `The manifest was signed at ${issued}, more than ${days} days ago by the clock of this device: ` +
      "a cache, or the clock, is wrong.",
  );
}

/**
 * Reads the manifest. Where this browser has seen a later one of `url`, it is requested once more
 * past all caches, and refused if it is still an earlier one. Throws KernelZooError (signature).
 */
export async function latest<Document extends Signed>(
  url: URL,
  read: (url: URL) => Promise<Document>,
): Promise<Document> {
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
