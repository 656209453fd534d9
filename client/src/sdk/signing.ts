/** Checks what pinned keys have signed. Loaded by pages that pin keys. */
import type { Notebook } from "../device/notebook.js";
import type { Deadline } from "../gateway/deadline.js";
import type { DeniedList, Manifest } from "../wire/types.js";
/** A manifest, or the answer for a model. */
export type Signed = Pick<Manifest, "issued_at" | "serial" | "signatures">;

/** A page requires this of manifests, and waits so long for what says more of them. */
export interface Requirements {
  readonly pins: readonly string[] | null;
  readonly deadline: Deadline;
}

/** The SDK's, of whose error this file would hold another. */
type Refuse = (message: string, cause?: unknown) => Error;

const SIGNATURE = /^[\w-]{86}$/;
/** Begins the last member of a manifest, which is not signed itself. */
const MEMBER = ',"signatures":';
const ALGORITHM = "Ed25519";

/** Decodes base64url. */
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
  signatures: Signatures,
  document: string,
  refuse: Refuse,
) {
  const signed = new TextEncoder().encode(document);
  for (const { key, signature } of signatures) {
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

const DAY_MS = 86_400_000;

/** A manifest of which this browser has seen none before may be so old: caches hold it for a day. */
const FIRST_AGE_MS = 2 * DAY_MS;

/** A list of what is denied may be so old. */
const DENIED_AGE_MS = DAY_MS;

type Denied = Pick<DeniedList, "device_class" | "artifacts" | "issued_at" | "serial">;

const olderThan = (issued: string, ageMs: number): boolean =>
  !(Date.now() - Date.parse(issued) <= ageMs);

/** The device classes in the address of a manifest or a model's answer: all behind its name. */
const classesIn = ({ pathname }: URL): string[] =>
  pathname.split("/v1/").at(-1)?.split("/").slice(2).map(decodeURIComponent) ?? [];

/**
 * Reads what the zoo of `url` says that a class is never to run; else what it said to this browser
 * last.
 */
async function deniedTo(
  deviceClass: string,
  url: URL,
  { pins, deadline }: Requirements,
  notes: Notebook,
  refuse: Refuse,
): Promise<Denied> {
  const base = url.href.slice(0, url.href.lastIndexOf("/v1/"));
  const address = `${base}/v1/denied/${encodeURIComponent(deviceClass)}`;
  const kept = notes.read(`denied:${address}`);
  let text: string;
  try {
    const answer = await fetch(new URL(address), { cache: "no-cache", signal: deadline() });
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    text = await answer.text();
  } catch (cause) {
    if (kept !== null) return JSON.parse(kept) as Denied;
    const why = "Without it, a page that pins keys runs nothing of a zoo that it sees first.";
    const said = cause instanceof Error ? cause.message : cause;
    throw refuse(`The list of denied kernels, ${address}, did not come: ${said}. ${why}`, cause);
  }
  const list = await signedDocument<Denied>(text, pins ?? [], refuse);
  if (list.device_class !== deviceClass) {
    throw refuse(`A list of what is denied to ${list.device_class} was sent for ${deviceClass}.`);
  }
  if (olderThan(list.issued_at, DENIED_AGE_MS)) {
    if (kept !== null) return JSON.parse(kept) as Denied;
    throw refuse(
      `The list of denied kernels is too old. ${agedSentence(list.issued_at, DENIED_AGE_MS)}`,
    );
  }
  const { artifacts, issued_at, serial } = list;
  const note = { device_class: deviceClass, artifacts, issued_at, serial };
  notes.write(`denied:${address}`, JSON.stringify(note));
  return note;
}

/** Throws as `latest` of the SDK. */
export async function latestOf<Document extends Signed>(
  url: URL,
  read: (url: URL) => Promise<Document>,
  required: Requirements,
  notes: Notebook,
  refuse: Refuse,
): Promise<Document> {
  const note = `serial:${url.origin}${url.pathname}`;
  const seen = Number(notes.read(note));
  const asked = Promise.all(
    classesIn(url).map((deviceClass) => deniedTo(deviceClass, url, required, notes, refuse)),
  );
  asked.catch(() => undefined); // It is awaited once there is a manifest.
  let manifest = await read(url);
  const lists = await asked;
  const deniedIn = (document: Document): string | undefined => {
    const text = JSON.stringify(document);
    return lists.flatMap(({ artifacts }) => artifacts).find((artifact) => text.includes(artifact));
  };
  const floor = Math.max(seen, ...lists.map(({ serial }) => serial));
  if (!(manifest.serial >= seen) || deniedIn(manifest) !== undefined) {
    const current = new URL(url);
    current.searchParams.set("after", `${floor}`);
    manifest = await read(current);
  }
  const { serial, issued_at: issued } = manifest;
  if (!(serial >= seen)) {
    throw refuse(`The manifest is of before one that this browser saw: ${serial} < ${seen}.`);
  }
  const denied = deniedIn(manifest);
  if (denied !== undefined) {
    const why = "A cache, or somebody on the way, holds newer ones back.";
    throw refuse(`The manifest names ${denied}, which the zoo has denied since. ${why}`);
  }
  if (seen === 0 && olderThan(issued, FIRST_AGE_MS)) {
    throw refuse(`${agedSentence(issued, FIRST_AGE_MS)} This browser has seen no other.`);
  }
  if (serial > seen) notes.write(note, `${serial}`);
  return manifest;
}
