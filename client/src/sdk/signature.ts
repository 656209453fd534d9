/**
 * A page that pins keys believes these: manifests that one of the keys has signed, by the
 * platform's Ed25519; none that is too old; and none that precedes one which this browser saw, as
 * whoever holds the way to the zoo may replay it to bring back kernels that were denied since.
 */
import { storedNotebook } from "../device/notebook.js";
import { KernelZooError } from "../engine/error.js";
import { beginsAsHtml } from "../gateway/html.js";
import type { Manifest } from "../wire/types.js";
import type { Requirements, Signed } from "./signing.js";

/** Public keys of which one must have signed; null where the page pins none. */
export type Pins = readonly string[] | null;

const KEY = /^[\w-]{43}$/;

export const signatureError = (message: string, cause?: unknown): KernelZooError =>
  new KernelZooError("signature", message, cause);

/** Throws KernelZooError (signature) for a pin that is no key. */
export function pinsOf(keys: readonly string[] | undefined): Pins {
  if (keys === undefined) return null;
  if (!Array.isArray(keys)) throw signatureError(`keys is to be a list of keys, not ${keys}.`);
  const wrong = keys.findIndex((key) => !KEY.test(key));
  if (wrong === -1) return keys;
  throw signatureError(`${keys[wrong]} is no key of a zoo: see its /v1/signing-keys.`);
}

/** JSON. Throws SyntaxError, of a page of HTML with what may be wrong. */
export function parsed<Document>(text: string): Document {
  if (!beginsAsHtml(text)) return JSON.parse(text) as Document;
  throw new SyntaxError("a page of HTML answered. Does the network want a login first?");
}

const signing = () => import("./signing.js");

/**
 * The manifest that `text` is. Where the page pins keys, only what one of them has signed is
 * read: the members before the last. Throws KernelZooError (signature).
 */
export async function openManifest<Document extends Signed = Manifest>(
  text: string,
  pins: Pins,
): Promise<Document> {
  if (pins === null) return parsed<Document>(text);
  return (await signing()).signedDocument<Document>(text, pins, signatureError);
}

/** Caches may hold a manifest for a day while the gateway is away; this leaves room for repairs. */
export const MAX_AGE_MS = 7 * 86_400_000;

export const notes = storedNotebook();

/**
 * Rejects with KernelZooError (signature) for a manifest that was signed more than `maxAgeMs` ago or
 * has no date.
 */
export async function refuseAged({ issued_at: issued }: Signed, maxAgeMs: number): Promise<void> {
  if (Date.now() - Date.parse(issued) <= maxAgeMs) return;
  throw signatureError((await signing()).agedSentence(issued, maxAgeMs));
}

/**
 * Reads the manifest. Where this browser has seen a later one of `url`, or it names a kernel that is
 * denied to its class, it is requested once more past all caches, and refused if it is still so.
 * Throws KernelZooError (signature).
 */
export async function latest<Document extends Signed>(
  url: URL,
  read: (url: URL) => Promise<Document>,
  required: Requirements,
): Promise<Document> {
  return (await signing()).latestOf(url, read, required, notes, signatureError);
}
