/** The contexts that a zoo has plans of a language model for. */
import type { Host } from "../model/host.js";
import type { Bundle } from "../sdk/address.js";
import { fresh } from "../sdk/manifest.js";

interface ListedPlan {
  readonly dimensions: Readonly<Record<string, number>>;
}

/** The plans of a model, as a gateway's `/v1/models/{name}` or a bundle's index lists them. */
async function plansOf({ origin, deadline }: Host, name: string): Promise<readonly ListedPlan[]> {
  const bundled = origin.pathname.endsWith(".json");
  const url = bundled ? origin : new URL(`./v1/models/${encodeURIComponent(name)}`, origin);
  const answer = await fresh(url, deadline);
  if (answer.kind !== "ok") return [];
  const document = JSON.parse(answer.value) as Bundle & { readonly plans?: readonly ListedPlan[] };
  return document.plans ?? document.models?.filter((model) => model.name === name) ?? [];
}

/**
 * The tokens that plans have room for, the fewest first; none where the zoo does not tell them: the
 * request for the model says why.
 */
export async function contextsOf(host: Host, name: string): Promise<readonly number[]> {
  const plans = await plansOf(host, name).catch(() => []);
  const found = plans.flatMap(({ dimensions: { context } }) => context ?? []);
  return [...new Set(found)].sort((a, b) => a - b);
}
