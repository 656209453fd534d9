/** Checks what pinned keys have signed. Loaded by pages that pin keys. */
import type { Notebook } from "../device/notebook.js";
import type { Manifest } from "../wire/types.js";

/** A manifest, or the answer for a model. */
export type Signed = Pick<Manifest, "issued_at" | "serial" | "signatures">;

/** The SDK's, of whose error this file would hold another. */
type Refuse = (message: string, cause?: unknown) => Error;

const SIGNATURE = /^[\w-]{86}$/;
/** Begins the last member of a manifest, which is not signed itself. */
const MEMBER = ',"signatures":';
const ALGORITHM = "Ed25519";

/** What base64url says. */
const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

async function verify(
  key: string,
  signature: string,
  signed: Uint8Array<ArrayBuffer>,
  refuse: Refuse,
) {
  if (globalThis.crypto?.subtle === undefined) {
    throw refuse("Keys need a secure context: serve this page by https.");
  }
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", bytesOf(key), ALGORITHM, false, ["verify"]);
  } catch (cause) {
    const since = "Chromium 137, Firefox 129, Safari 17";
    throw refuse(`This browser cannot check ${ALGORITHM}; ${since} can.`, cause);
  }
  return crypto.subtle.verify(ALGORITHM, imported, bytesOf(signature), signed);
}

type Signatures = Signed["signatures"];

async function signedBy(
  pins: readonly string[],
  made: Signatures,
  document: string,
  refuse: Refuse,
) {
  const signed = new TextEncoder().encode(document);
  for (const { key, signature } of made) {
    if (!pins.includes(key) || !SIGNATURE.test(signature)) continue;
    if (await verify(key, signature, signed, refuse)) return true;
  }
  return false;
}

/** The document that one of `pins` has signed: the members before the last. Throws as `openManifest`. */
export async function signedDocument<Document>(
  text: string,
  pins: readonly string[],
  refuse: Refuse,
): Promise<Document> {
  const end = text.lastIndexOf(MEMBER);
  if (end < 0) throw refuse("The manifest is not signed.");
  const document = `${text.slice(0, end)}}`;
  const { signatures } = JSON.parse(`{${text.slice(end + 1)}`) as Pick<Manifest, "signatures">;
  if (!(await signedBy(pins, signatures, document, refuse))) {
    const by = signatures.map(({ key }) => key).join();
    const why = "Somebody changed it, or the zoo has new keys: see its /v1/signing-keys.";
    throw refuse(`No valid signature of a pinned key, but of: ${by}. ${why}`);
  }
  return { ...JSON.parse(document), signatures } as Document;
}

export const agedSentence = (issued: string, maxAgeMs: number): string =>
  `The manifest was signed at ${issued}, more than ${maxAgeMs / 86_400_000} days ago by the clock of ` +
  "this device: a cache, or the clock, is wrong.";

/** Throws as `latest` of the SDK. */
export async function latestOf<Document extends Signed>(
  url: URL,
  read: (url: URL) => Promise<Document>,
  notes: Notebook,
  refuse: Refuse,
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
    throw refuse(`The manifest is of before one that this browser saw: ${serial} < ${seen}.`);
  }
  if (serial > seen) notes.write(note, `${serial}`);
  return manifest;
}
