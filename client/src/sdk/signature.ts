/** Signatures of manifests, by the platform's Ed25519 and nothing of our own. */
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

type Signatures = Manifest["signatures"];

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
export async function openManifest(text: string, pins: Pins): Promise<Manifest> {
  if (pins === null) return JSON.parse(text) as Manifest;
  const end = text.lastIndexOf(MEMBER);
  if (end < 0) throw signatureError("The manifest is not signed.");
  const document = `${text.slice(0, end)}}`;
  const { signatures } = JSON.parse(`{${text.slice(end + 1)}`) as Pick<Manifest, "signatures">;
  if (!(await signedBy(pins, signatures, document))) {
    const by = signatures.map(({ key }) => key).join();
    const why = "Somebody changed it, or the zoo has new keys: see its /v1/signing-keys.";
    throw signatureError(`No valid signature of a pinned key, but of: ${by}. ${why}`);
  }
  return { ...(JSON.parse(document) as Omit<Manifest, "signatures">), signatures };
}
