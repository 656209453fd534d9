/** Chooses the plan of a model that computes what a session is fed, and tells the shapes of outputs. */
import type { InferenceSession, Tensor } from "onnxruntime-common";
import type { Schemas } from "../wire/types.js";
import type { GraphPorts } from "./graph-ports.js";

export type ModelDocument = Schemas["ModelDocument"];
export type DocumentedPlan = ModelDocument["plans"][number];
type Port = DocumentedPlan["inputs"][number];
type OpenAxis = Schemas["OpenAxis"];
type FedTensors = Readonly<Record<string, Pick<Tensor, "dims" | "data">>>;

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

const openAxes = (open: readonly OpenAxis[], place: number) =>
  open.filter((axis) => axis.place === place);

/** Returns the extent at a place of a shape where its dimensions have these extents. */
const extentAt = (
  plan: DocumentedPlan,
  open: readonly OpenAxis[],
  most: number,
  extents: Readonly<Record<string, number>>,
) =>
  open.reduce((n, { dimension, step }) => {
    const largest = plan.dimensions[dimension] as number;
    return n - step * (largest - (extents[dimension] ?? largest));
  }, most);

/** Notes the extents of dimensions that a tensor has at places of their own. */
function note(
  plan: DocumentedPlan,
  { open = [] }: Port,
  dims: readonly number[],
  extents: Record<string, number>,
): void {
  for (const [place, n] of dims.entries()) {
    const [axis, another] = openAxes(open, place);
    if (axis === undefined || another !== undefined) continue;
    const largest = plan.dimensions[axis.dimension] ?? Number.NaN;
    extents[axis.dimension] ??= largest - (axis.most - n) / axis.step;
  }
}

/** Returns whether a tensor may be fed to an input where dimensions have these extents. */
const fits = (
  plan: DocumentedPlan,
  { shape, open = [] }: Port,
  dims: readonly number[],
  extents: Readonly<Record<string, number>>,
): boolean =>
  dims.length === shape.length &&
  dims.every((n, place) => {
    const axes = openAxes(open, place);
    return n === extentAt(plan, axes, axes[0]?.most ?? (shape[place] as number), extents);
  });

const areServed = (plan: DocumentedPlan, extents: Readonly<Record<string, number>>): boolean =>
  Object.entries(extents).every(([dimension, extent]) => {
    const largest = plan.dimensions[dimension] as number;
    const least = plan.least[dimension] ?? largest;
    return Number.isInteger(extent) && extent >= least && extent <= largest;
  });

/** Chooses the first plan that serves the feeds; null where none does. */
export function chosenPlan(plans: readonly DocumentedPlan[], feeds: FedTensors): ChosenPlan | null {
  for (const plan of plans) {
    const extents: Record<string, number> = {};
    for (const port of plan.inputs) note(plan, port, feeds[port.name]?.dims ?? [], extents);
    const isFed = plan.inputs.every((port) => {
      const feed = feeds[port.name];
      return feed !== undefined && fits(plan, port, feed.dims, extents);
    });
    // An input that the import took for a constant says by its one entry which plan is meant.
    const isMeant = Object.entries(feeds).every(([name, { data }]) => {
      if (plan.inputs.some((port) => port.name === name)) return true;
      return data.length === 1 && Number(data[0]) === plan.dimensions[name];
    });
    if (isFed && isMeant && areServed(plan, extents)) return { plan, extents };
  }
  return null;
}

/** The shape of an output where the dimensions of its plan have these extents. */
export const outputDims = ({ plan, extents }: ChosenPlan, { shape, open = [] }: Port): number[] =>
  shape.map((n, place) => {
    const axes = openAxes(open, place);
    return extentAt(plan, axes, axes[0]?.most ?? n, extents);
  });
