/** Chooses the plan of a model that computes what a session is fed, and tells the shapes of outputs. */
import type { InferenceSession, Tensor } from "onnxruntime-common";
import type { Schemas } from "../wire/types.js";
import type { GraphPorts } from "./graph-ports.js";

export type ModelDocument = Schemas["ModelDocument"];
export type DocumentedPlan = ModelDocument["plans"][number];
type Port = DocumentedPlan["inputs"][number];
type OpenAxis = Schemas["OpenAxis"];
type Feeds = Readonly<Record<string, Pick<Tensor, "dims" | "data">>>;

/** A plan, and the extents of its dimensions that feeds have. */
export interface ChosenPlan {
  readonly plan: DocumentedPlan;
  readonly extents: Readonly<Record<string, number>>;
}

const typeOf = (ports: readonly InferenceSession.ValueMetadata[], name: string) => {
  const metadata = ports.find((port) => port.name === name);
  return metadata?.isTensor ? metadata.type : undefined;
};

/** Says why no plan can stand for a graph with such inputs and outputs; null where one may. */
export function unfitReason({ inputs, outputs }: GraphPorts, plan: DocumentedPlan): string | null {
  for (const [given, planned] of [
    [inputs, plan.inputs],
    [outputs, plan.outputs],
  ] as const) {
    for (const { name, dtype } of planned) {
      const type = typeOf(given, name);
      if (type !== dtype) return `${name} is ${type ?? "nothing"} in the file, and ${dtype} here.`;
    }
  }
  const planned = [...plan.inputs, ...plan.outputs].map(({ name }) => name);
  const lacking = [...inputs, ...outputs].find(
    ({ name }) => !planned.includes(name) && plan.dimensions[name] === undefined,
  );
  return lacking === undefined ? null : `Its plan was made without ${lacking.name}.`;
}

/** The extent that an axis gives a dimension; NaN for one that the plan does not serve. */
function extentBy(plan: DocumentedPlan, { dimension, most, step }: OpenAxis, n: number) {
  const largest = plan.dimensions[dimension] ?? Number.NaN;
  const extent = largest - (most - n) / step;
  const least = plan.least[dimension] ?? largest;
  return Number.isInteger(extent) && extent >= least && extent <= largest ? extent : Number.NaN;
}

const openAxis = (open: readonly OpenAxis[], place: number) =>
  open.find((axis) => axis.place === place);

/** Returns whether a tensor may be fed to an input, whose extents are noted. */
function fits(
  plan: DocumentedPlan,
  { shape, open = [] }: Port,
  dims: readonly number[],
  extents: Record<string, number>,
): boolean {
  if (dims.length !== shape.length) return false;
  return dims.every((n, place) => {
    const axis = openAxis(open, place);
    if (axis === undefined) return n === shape[place];
    const extent = extentBy(plan, axis, n);
    extents[axis.dimension] ??= extent;
    return extents[axis.dimension] === extent;
  });
}

/** Chooses the first plan that serves the feeds; null where none does. */
export function chosenPlan(plans: readonly DocumentedPlan[], feeds: Feeds): ChosenPlan | null {
  for (const plan of plans) {
    const extents: Record<string, number> = {};
    const isFed = plan.inputs.every((port) => {
      const feed = feeds[port.name];
      return feed !== undefined && fits(plan, port, feed.dims, extents);
    });
    // An input that the import took for a constant says by its one entry which plan is meant.
    const isMeant = Object.entries(feeds).every(([name, { data }]) => {
      if (plan.inputs.some((port) => port.name === name)) return true;
      return data.length === 1 && Number(data[0]) === plan.dimensions[name];
    });
    if (isFed && isMeant) return { plan, extents };
  }
  return null;
}

/** The shape of an output where the dimensions of its plan have these extents. */
export const outputDims = ({ plan, extents }: ChosenPlan, { shape, open = [] }: Port): number[] =>
  shape.map((n, place) => {
    const axis = openAxis(open, place);
    if (axis === undefined) return n;
    const { dimension, most, step } = axis;
    const largest = plan.dimensions[dimension] as number;
    return most - step * (largest - (extents[dimension] ?? largest));
  });
