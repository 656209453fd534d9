import type { Hardware } from "../device/hardware.js";
import { KernelZooError } from "../engine/error.js";
import { type Answer, ask } from "../gateway/answer.js";
import { now } from "../timing/clock.js";
import type { Manifest, ManifestEntry } from "../wire/types.js";
import { registerCommand } from "./names.js";

/** A manifest and how long its request took. */
export interface TimedManifest {
  readonly manifest: Manifest;
  readonly elapsedMs: number;
}

/** Encodes a path segment; colon and plus are legal there and keep the address readable. */
const segment = (text: string): string =>
  encodeURIComponent(text).replaceAll("%3A", ":").replaceAll("%2B", "+");

function notFound(name: string, detail: string): KernelZooError {
  const remedy = name.includes(":")
    ? `Register it on the machine of the zoo: ${registerCommand(name)}`
    : "Register the set of workloads first.";
  return new KernelZooError("manifest", `The zoo does not know ${name}. ${remedy} (${detail})`);
}

/**
 * Asks whether the manifest has changed, as a device may have voted since the last page load.
 * While the zoo is away, the browser's copy of it serves.
 */
async function fresh(url: URL, init: RequestInit): Promise<Answer<Manifest>> {
  const answer = await ask<Manifest>(url, { ...init, cache: "no-cache" });
  if (answer.kind !== "unavailable") return answer;
  const kept = await ask<Manifest>(url, { ...init, cache: "force-cache" });
  return kept.kind === "ok" ? kept : answer;
}

/** Whose kernels are asked for: the classes of one device, wasm's first. */
export interface Asker {
  readonly deviceClasses: readonly string[];
  /** What the device id is made from, so that unknown devices get what their like found. */
  readonly hardware: Hardware | null;
}

/**
 * One request for a workload or a set of them.
 * Throws KernelZooError: network, manifest (unknown or malformed name).
 */
export async function requestManifest(
  origin: URL,
  name: string,
  { deviceClasses, hardware }: Asker,
  signal?: AbortSignal,
): Promise<TimedManifest> {
  const start = now();
  const path = [name, ...deviceClasses].map(segment).join("/");
  const url = new URL(`/v1/zoo/${path}`, origin);
  if (hardware !== null) url.searchParams.set("hardware", JSON.stringify(hardware));
  const answer = await fresh(url, signal === undefined ? {} : { signal });
  switch (answer.kind) {
    case "ok":
      return { manifest: answer.value, elapsedMs: now() - start };
    case "refused":
      if (answer.status === 404) throw notFound(name, answer.detail);
      throw new KernelZooError("manifest", `The zoo refuses ${name}: ${answer.detail}`);
    case "unavailable":
      throw new KernelZooError("network", answer.detail);
    case "empty":
      throw new KernelZooError("manifest", `${origin.origin} is not a zoo: it answered nothing.`);
    default:
      return answer satisfies never;
  }
}

/** The entry of `workload`. Throws KernelZooError (manifest) where there is none yet. */
export function entryOf(manifest: Manifest, workload: string): ManifestEntry {
  const entry = manifest.entries.find((each) => each.workload === workload);
  if (entry !== undefined) return entry;
  throw new KernelZooError(
    "manifest",
    `${workload} is registered, but no kernel of it has been compiled yet. ` +
      "Try again in a few seconds, and see the console of the zoo if that does not help.",
  );
}
