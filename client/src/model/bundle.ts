/** The models of a bundle. Loaded by pages that open one of a bundle. */
import { KernelZooError } from "../engine/error.js";
import { type BundledModel, chooseOffer } from "../sdk/address.js";
import { bundleIn, refuseRenamed } from "../sdk/manifest.js";
import type { ModelAnswer, Precision } from "../wire/model-answer.js";
import type { Host } from "./host.js";

/** The functions of the runtime that read answers and hold them to what the page pins. */
export interface AnswerReader {
  /** Throws KernelZooError: network, manifest. */
  readonly text: (url: URL) => Promise<string>;
  readonly open: (url: URL, text: string) => Promise<ModelAnswer>;
}

/** Says which of a model's plans is asked for. */
interface AskedPlan {
  readonly dimensions: Readonly<Record<string, number>>;
  readonly precision: Precision | undefined;
}

/**
 * Reads a model from the bundle that the zoo is. Throws KernelZooError: network, signature,
 * manifest.
 */
export async function requestInBundle(
  host: Host,
  name: string,
  asked: AskedPlan,
  { text: read, open }: AnswerReader,
): Promise<ModelAnswer> {
  const { origin } = host;
  const { models = [], file_bytes: fileBytes = Infinity } = bundleIn(host, await read(origin));
  const url = new URL(`.${chosenOf(host, models, name, asked).url}`, origin);
  const text = await read(url);
  refuseRenamed(host, url, text);
  const answer = await open(url, text);
  const { weights, plan } = answer;
  if (weights.sha256 === null || weights.size_bytes <= fileBytes) return answer;
  const chunks = Math.floor(fileBytes / Math.max(...plan.chunks.map(({ bytes }) => bytes)));
  return { ...answer, weights: { ...weights, url: `${weights.url}#${chunks}` } };
}

/** Throws KernelZooError (manifest). */
function chosenOf(
  { origin, deviceClass }: Host,
  models: readonly BundledModel[],
  name: string,
  { dimensions, precision }: AskedPlan,
): BundledModel {
  const asked = Object.entries(dimensions);
  const offers = models.filter(
    (model) =>
      model.name === name &&
      asked.every(([axis, n]) => model.dimensions[axis] === n) &&
      (precision === undefined || model.precision === precision),
  );
  const chosen = chooseOffer(offers, [deviceClass]);
  if (chosen !== undefined) return chosen;
  const size = asked.map(([axis, n]) => ` with ${axis} ${n}`).join("");
  const of = precision === undefined ? "" : ` of ${precision}`;
  const message = `${origin} has no model ${name}${size}${of} for ${deviceClass}.`;
  throw new KernelZooError("manifest", message);
}
