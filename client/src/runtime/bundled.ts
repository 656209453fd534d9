/** The models of a bundle. Loaded by pages that open one of a bundle. */
import type { Bundle } from "../sdk/address.js";
import type { Host } from "./host.js";

/** The address of a model in the bundle whose index is `text`. Throws KernelZooError: signature, manifest. */
export function addressInBundle(
  { origin, bundle: pinned, deviceClass, tools }: Host,
  text: string,
  name: string,
  dimensions: Readonly<Record<string, number>>,
): URL {
  if (pinned !== undefined && tools.hashOf(text) !== pinned) {
    throw new tools.KernelZooError("signature", `${origin} is another bundle than the page pins.`);
  }
  const { models = [] } = JSON.parse(text) as Bundle;
  const asked = Object.entries(dimensions);
  const offers = models.filter(
    (model) => model.name === name && asked.every(([axis, n]) => model.dimensions[axis] === n),
  );
  const chosen = tools.chooseOffer(offers, [deviceClass]);
  if (chosen !== undefined) return new URL(`.${chosen.url}`, origin);
  const size = asked.map(([axis, n]) => ` with ${axis} ${n}`).join("");
  const message = `${origin} has no model ${name}${size} for ${deviceClass}.`;
  throw new tools.KernelZooError("manifest", message);
}
