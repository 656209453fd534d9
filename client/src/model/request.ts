/** Asks for a model: a gateway, a bundle, or a file of any static host. */
import { KernelZooError } from "../engine/error.js";
import type { Answer } from "../gateway/request.js";
import { fresh } from "../sdk/manifest.js";
import { latest, openManifest, refuseAged } from "../sdk/signature.js";
import type { KeptModule } from "../weights/cached-model.js";
import type { ModelAnswer, Precision } from "../wire/model-answer.js";
import type { Host } from "./host.js";

export type Dimensions = Readonly<Record<string, number>>;

/** `origin` is what addresses in the answer are relative to. */
export interface Answered {
  readonly answer: ModelAnswer;
  readonly origin: string;
  /** The answer of the zoo, where weights are read from a file of the page until it is complete. */
  readonly served?: ModelAnswer;
  /** The reason why it is not for the target that was asked for. */
  readonly reason?: string | null;
  /** Its kernels, where they are kept on the device. */
  readonly modules?: readonly KeptModule[];
  /** Asks for the model on WebAssembly, for a GPU that fails. */
  readonly spare?: () => Promise<Answered>;
}

/** Returns an answer whose weights are read from a file of the page, if that is of their size. */
export function withWeights(answered: Answered, file: Blob | undefined): Answered {
  const { answer } = answered;
  if (file?.size !== answer.weights.size_bytes) return answered;
  const weights = { ...answer.weights, url: URL.createObjectURL(file) };
  return { ...answered, answer: { ...answer, weights }, served: answer };
}

export const isFile = (name: string): boolean => name.endsWith(".json");

const refused = (message: string): KernelZooError => new KernelZooError("manifest", message);

/** A file that few pages load says what they did wrong. */
const refusals = () => import("../sdk/refusals.js");

/** The text of an answer. Throws KernelZooError: network, manifest. */
async function textOf(url: URL, name: string, answer: Answer<string>): Promise<string> {
  if (answer.kind === "ok") return answer.value;
  if (answer.kind === "empty") return "";
  if (answer.kind === "unavailable") throw new KernelZooError("network", answer.detail);
  throw refused((await refusals()).noModel(url, name, answer));
}

/** The address of a model at a gateway, or of what lies below that, such as `/candidates`. */
export function modelAddress(
  {
    origin,
    deviceClass,
    hardware,
  }: Pick<Host, "deviceClass" | "hardware"> & { origin: URL | string },
  name: string,
  { dimensions, precision }: { dimensions: Dimensions; precision?: Precision | undefined },
  below = "",
): URL {
  const path = [name, deviceClass].map(encodeURIComponent).join("/");
  const url = new URL(`./v1/models/${path}${below}`, origin);
  for (const [axis, extent] of Object.entries(dimensions)) url.searchParams.set(axis, `${extent}`);
  if (precision !== undefined) url.searchParams.set("precision", precision);
  if (hardware !== null) url.searchParams.set("hardware", JSON.stringify(hardware));
  return url;
}

const KNOWN_NEEDS = /^(states|stored|f16|i8|ranges|buckets|encoder|axes)$/;

async function refuseMalformed(host: Host, answer: ModelAnswer, url: URL): Promise<void> {
  const { model, plan, kernels } = answer;
  const needs = plan?.needs;
  const unknown = needs?.find((need) => !KNOWN_NEEDS.test(need));
  const isAsked = needs?.includes("states") === (host.states ?? false);
  if (model === 1 && kernels && isAsked && unknown === undefined) return;
  throw refused((await refusals()).otherKind(url, answer, unknown));
}

/** Throws KernelZooError (signature) for a signed answer to another question. */
function refuseOther({ deviceClass }: Host, answer: ModelAnswer, name: string): void {
  if (answer.name === name && answer.device_class === deviceClass) return;
  throw new KernelZooError("signature", `${answer.name} was sent for ${name}.`);
}

/**
 * Asks for the plan of a model with kernels for this device. A name that ends in `.json` is the
 * address of such an answer, relative to the page; `asked` is the answer of the zoo where it was
 * asked before. The zoo chooses the `precision` unless told. Throws KernelZooError: network, manifest, signature.
 */
export async function requestModel(
  host: Host,
  name: string,
  dimensions: Dimensions,
  asked?: Promise<Answer<string>>,
  precision?: Precision,
): Promise<Answered> {
  const { pins, maxAgeMs, deadline, origin } = host;
  const stored = isFile(name);
  const growing = pins !== null && !stored;
  const text = async (url: URL): Promise<string> =>
    textOf(url, name, await (asked ?? fresh(url, deadline)));
  const open = async (url: URL, text: string): Promise<ModelAnswer> => {
    const answer = await openManifest<ModelAnswer>(text, pins);
    await refuseMalformed(host, answer, url);
    if (maxAgeMs !== null && !stored) await refuseAged(answer, maxAgeMs);
    return answer;
  };
  const opened = async (url: URL): Promise<ModelAnswer> => {
    const answer = await open(url, await text(url));
    if (growing) refuseOther(host, answer, name);
    return answer;
  };
  try {
    if (!stored && isFile(origin.pathname)) {
      const { requestInBundle } = await import("./bundle.js");
      const answer = await requestInBundle(host, name, { dimensions, precision }, { text, open });
      return { answer, origin: origin.href };
    }
    const url = stored
      ? new URL(name, globalThis.document?.baseURI)
      : modelAddress(host, name, { dimensions, precision });
    const answer = await (growing ? latest(url, opened, host) : opened(url));
    return { answer, origin: (stored ? url : origin).href };
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError || thrown instanceof TypeError)) throw thrown;
    throw refused((await refusals()).notOf(origin, name, thrown));
  }
}
