/**
 * Runs a plan that serves a range of extents: feeds say which by their length or shape. Loaded with
 * the first such plan.
 */
import { KernelZooError } from "../engine/error.js";
import { productOf } from "../engine/tensors.js";
import { misfitText } from "../sdk/refusals.js";
import type { PlanWire, PortWire } from "../wire/model-answer.js";
import { type Entries, type Feed, type Feeds, Misfit, type TensorData } from "./feeds.js";
import type { AnyModel, FeedsOf, Model, ModelTypes, RunOptions } from "./model.js";
import type { Opener } from "./opener.js";

type Axes = NonNullable<PlanWire["axes"]>;
type Axis = Axes[number];
type Open = NonNullable<PortWire["open"]>;

const refused = (message: string) => new KernelZooError("run", message);

const entriesOf = (feed: Feed): Entries => ("data" in feed ? feed.data : feed);

/** `1×sequence`, with the names of dimensions that have a range. */
function shapeText({ shape, open }: PortWire, axes: Axes): string {
  const name = (axis: Axis, { step, place }: Open) => {
    const more = (shape[place] as number) - step * axis.most;
    return (step > 1 ? `${step}·` : "") + axis.name + (more > 0 ? `+${more}` : "");
  };
  return shape
    .map((extent, i) => (open?.place === i ? name(axes[open.axis] as Axis, open) : extent))
    .join("×");
}

/** Counts what a feed leaves out of the largest extent. Throws KernelZooError (run). */
function spareOf(port: PortWire, open: Open, feed: Feed, axes: Axes): number {
  const { place, axis, step } = open;
  const { name, least, most } = axes[axis] as Axis;
  const inner = productOf(port.shape) / (port.shape[place] as number);
  const entries = entriesOf(feed);
  const extent = entries.length / inner;
  const spare = ((port.shape[place] as number) - extent) / step;
  const shape = port.shape.map((each, i) => (i === place ? extent : each));
  const given = "data" in feed ? feed.shape : shape;
  const fits = Number.isInteger(spare) && spare >= 0 && most - spare >= least;
  if (fits && given.join() === shape.join()) return spare;
  throw refused(
    `Input ${port.name} takes ${shapeText(port, axes)}, where ${name} is from ${least} to ${most}, ` +
      `not ${"data" in feed ? given.join("×") : `${entries.length} entries`}: cut or split it.`,
  );
}

/** The entries of a feed, and behind them what an input takes where nobody reads it. */
function padded(port: PortWire, feed: Feed): Entries {
  const length = productOf(port.shape);
  const entries = entriesOf(feed);
  if (entries.length === length) return entries;
  // Any row does; arrays of a page may hold no negative numbers.
  const [least, most] = port.rows ?? [0, 0];
  const beyond = Math.min(Math.max(0, least), most);
  if (Array.isArray(entries) || !ArrayBuffer.isView(entries)) {
    const some = Array.from(entries as ArrayLike<number>);
    return some.concat(new Array(length - some.length).fill(beyond));
  }
  const given = entries as unknown as TensorData;
  const made = new (given.constructor as new (length: number) => TensorData)(length);
  const isBig = made instanceof BigInt64Array || (made as unknown) instanceof BigUint64Array;
  if (isBig) {
    (made as BigInt64Array).fill(BigInt(beyond), given.length);
    (made as BigInt64Array).set(given as BigInt64Array);
  } else {
    (made as Int32Array).fill(beyond, given.length);
    (made as Int32Array).set(given as Int32Array);
  }
  return made;
}

/** The feeds of the plan, with what each of its dimensions leaves out. Throws KernelZooError (run). */
function fitted(plan: PlanWire, axes: Axes, feeds: Feeds): [Feeds, readonly number[]] {
  const spare: number[] = [];
  const first: string[] = [];
  const made: Record<string, Feed> = { ...feeds };
  const told = axes.map(({ input }) => plan.inputs[input]?.name);
  const known = plan.inputs.map(({ name }) => name).filter((name) => !told.includes(name));
  const other = Object.keys(feeds).find((name) => !known.includes(name));
  if (other !== undefined) throw refused(misfitText(new Misfit("unknown", { name: other }, known)));
  for (const port of plan.inputs) {
    const { name, open } = port;
    const feed = Object.hasOwn(feeds, name) ? feeds[name] : undefined;
    if (open === undefined || feed === undefined || feed === null) continue;
    const own = spareOf(port, open, feed, axes);
    const { axis } = open;
    if (own !== (spare[axis] ?? own)) {
      const other = (axes[axis] as Axis).most - (spare[axis] as number);
      const extents = `${other} in ${first[axis]} and ${(axes[axis] as Axis).most - own} in ${name}`;
      throw refused(`${(axes[axis] as Axis).name} is ${extents}: give inputs of one extent.`);
    }
    spare[axis] = own;
    first[axis] ??= name;
    made[name] = padded(port, feed);
  }
  for (const [i, { input }] of axes.entries()) {
    made[(plan.inputs[input] as PortWire).name] = [spare[i] ?? 0];
  }
  return [made, spare];
}

/** Has a model take feeds of every extent that its plan serves, and answer as many entries. */
export function serveRanges<Types extends ModelTypes = AnyModel>(
  model: Model<Types>,
  { answer: { plan } }: Opener,
): void {
  const axes = plan.axes ?? [];
  const told = axes.map(({ input }) => plan.inputs[input]?.name);
  const run = model.run.bind(model);
  Object.assign(model, {
    inputs: model.inputs.filter(({ name }) => !told.includes(name)),
    async run(feeds: Feeds, options?: RunOptions<Types["outputs"]>) {
      const [whole, spare] = fitted(plan, axes, feeds);
      const made = await run(whole as FeedsOf<Types>, options);
      const outputs = { ...made } as Record<string, TensorData>;
      for (const { name, open, shape } of plan.outputs) {
        if (open === undefined) continue;
        const { axis, place, step } = open;
        const left = productOf(shape.slice(place + 1)) * step * (spare[axis] ?? 0);
        outputs[name] = (outputs[name] as TensorData).slice(0, productOf(shape) - left);
      }
      return outputs;
    },
  });
}
