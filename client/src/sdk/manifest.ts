import type { Hardware } from "../device/hardware.js";
import { KernelZooError } from "../engine/error.js";
import { sha256Hex } from "../engine/sha256.js";
import type { Deadline } from "../gateway/deadline.js";
import { type Answer, ask } from "../gateway/request.js";
import { now } from "../timing/clock.js";
import type { Manifest, ManifestEntry } from "../wire/types.js";
import { addressIn, type Bundle, isBundle } from "./address.js";
import {
  latest,
  openManifest,
  type Pins,
  parsed,
  refuseAged,
  signatureError,
} from "./signature.js";

/** A manifest and how long its request took. */
export interface TimedManifest {
  readonly manifest: Manifest;
  readonly elapsedMs: number;
}

/** Encodes a path segment; colon and plus are legal there and keep the address readable. */
const segment = (text: string): string =>
  encodeURIComponent(text).replaceAll("%3A", ":").replaceAll("%2B", "+");

/** Loads the sentences about what pages did wrong, which few of them need. */
const refusals = () => import("./refusals.js");

/** Reading the browser's own copy takes at most this long. */
const KEPT_MS = 1_000;

/**
 * Asks whether the manifest has changed, as a device may have voted since the last page load.
 * While the zoo is away, the browser's copy of it serves.
 */
export async function fresh(url: URL, deadline: Deadline): Promise<Answer<string>> {
  const text = (response: Response): Promise<string> => response.text();
  const answer = await ask(url, { cache: "no-cache", signal: deadline() }, text);
  if (answer.kind !== "unavailable") return answer;
  const kept = await ask(url, { cache: "force-cache", signal: deadline(KEPT_MS) }, text);
  return kept.kind === "ok" ? kept : answer;
}

/**
 * Reads what is at `url`, as text; `name` is '' for parts of a bundle. Throws KernelZooError:
 * network, manifest.
 */
async function read(url: URL, name: string, deadline: Deadline): Promise<string> {
  const answer = await fresh(url, deadline);
  switch (answer.kind) {
    case "ok":
      return answer.value;
    case "refused":
      if (!answer.byGateway || name === "") {
        const message = `${url} answered ${answer.status}, which is no zoo's answer. Is the address right?`;
        throw new KernelZooError("manifest", message);
      }
      throw new KernelZooError("manifest", (await refusals()).refusedName(name, answer));
    case "unavailable":
      throw new KernelZooError("network", answer.detail);
    case "empty":
      throw new KernelZooError("manifest", `${url.origin} is not a zoo: it answered nothing.`);
    default:
      return answer satisfies never;
  }
}

/** Kernels are asked for on behalf of this device: the classes of one device, wasm's first. */
export interface Asker {
  readonly deviceClasses: readonly string[];
  /**
   * The hardware behind the device id, so that an unknown device is served what similar ones found.
   */
  readonly hardware: Hardware | null;
}

/** A zoo, and what the page requires of its manifests. */
export interface Source {
  readonly origin: URL;
  readonly pins: Pins;
  /** Null where a manifest may be of any age. */
  readonly maxAgeMs: number | null;
  /** SHA-256 of the one `bundle.json` that is accepted. */
  readonly bundle: string | undefined;
  readonly deadline: Deadline;
}

/** The index of the bundle that a zoo is. Throws KernelZooError (signature) for another than is pinned. */
export function bundleIn({ origin, bundle: pinned }: Source, text: string): Bundle {
  if (pinned === undefined || hashOf(text) === pinned) return parsed<Bundle>(text);
  throw signatureError(`${origin} is another bundle than this page pins: ${hashOf(text)}.`);
}

/** Throws KernelZooError (signature) for a file of a pinned bundle that has another hash than its name. */
export function refuseRenamed({ bundle: pinned }: Source, url: URL, text: string): void {
  if (pinned === undefined || url.pathname.endsWith(`/${hashOf(text)}.json`)) return;
  throw signatureError(`${url} is not what its name says: somebody changed it.`);
}

async function addressOf(
  source: Source,
  name: string,
  { deviceClasses, hardware }: Asker,
): Promise<URL> {
  const { origin, deadline } = source;
  if (isBundle(origin)) {
    return addressIn(bundleIn(source, await read(origin, name, deadline)), origin, deviceClasses);
  }
  const path = [name, ...deviceClasses].map(segment).join("/");
  const url = new URL(`./v1/zoo/${path}`, origin);
  if (hardware !== null) url.searchParams.set("hardware", JSON.stringify(hardware));
  return url;
}

export const hashOf = (text: string): string => sha256Hex(new TextEncoder().encode(text));

/** Throws KernelZooError (manifest) for JSON that is something else. */
function refuseMalformed(manifest: Manifest | null, url: URL): void {
  const { entries, missing } = manifest ?? {};
  if (Array.isArray(entries) && Array.isArray(missing)) return;
  throw new KernelZooError("manifest", `${url} answered something that is no manifest.`);
}

/** Throws KernelZooError (signature) for a signed manifest of something else. */
function refuseOther(manifest: Manifest, name: string, deviceClasses: readonly string[]): void {
  const { set, device_classes } = manifest;
  if (set === name && device_classes.join() === deviceClasses.join()) return;
  const subject = `${set} on ${device_classes.join()}`;
  throw new KernelZooError("signature", `A manifest of ${subject} was sent for ${name}.`);
}

/**
 * One request for a workload or a set of them, two for a bundle, which holds one set.
 * Throws KernelZooError: network, manifest (unknown or malformed name), signature.
 */
export async function requestManifest(
  source: Source,
  name: string,
  asker: Asker,
): Promise<TimedManifest> {
  const start = now();
  const { origin, pins, maxAgeMs, deadline } = source;
  const opened = async (url: URL): Promise<Manifest> => {
    const text = await read(url, name, deadline);
    refuseRenamed(source, url, text);
    const manifest = await openManifest(text, pins);
    refuseMalformed(manifest, url);
    if (maxAgeMs !== null) await refuseAged(manifest, maxAgeMs);
    // A bundle names a class that runs here, and one set that may hold the workload.
    if (pins !== null && !isBundle(origin)) refuseOther(manifest, name, asker.deviceClasses);
    return manifest;
  };
  try {
    const url = await addressOf(source, name, asker);
    const growing = pins !== null && !isBundle(origin);
    const manifest = await (growing ? latest(url, opened, source) : opened(url));
    return { manifest, elapsedMs: now() - start };
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    const message = `${origin} is not a zoo, or what it said was changed: ${thrown.message}`;
    throw new KernelZooError("manifest", message, thrown);
  }
}

/** All entries of the set `name`. Throws KernelZooError (manifest) where it is another's. */
export function entriesOf({ set, entries }: Manifest, name: string): readonly ManifestEntry[] {
  if (set === name) return entries;
  throw new KernelZooError("manifest", `These are the kernels of ${set}, not of ${name}.`);
}

/** The entry of `workload`. Rejects with KernelZooError (manifest) where there is none yet. */
export async function entryOf(manifest: Manifest, workload: string): Promise<ManifestEntry> {
  const entry = manifest.entries.find((listed) => listed.workload === workload);
  if (entry !== undefined) return entry;
  throw new KernelZooError("manifest", (await refusals()).noEntry(manifest, workload));
}
