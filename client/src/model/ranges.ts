/**
 * Runs a plan that serves a range of extents: feeds say which by their length or shape, those of a
 * batch by their shape alone. Loaded with the first such plan.
 */
import { KernelZooError } from "../engine/error.js";
import { productOf } from "../engine/tensors.js";
import { misfitText } from "../sdk/refusals.js";
import type { PlanWire, PortWire } from "../wire/model-answer.js";
import {
  type Entries,
  type Feed,
  type Feeds,
  Misfit,
  type Shaped,
  type TensorData,
} from "./feeds.js";
import type { AnyModel, FeedsOf, Model, ModelTypes, RunOptions } from "./model.js";
import type { Opener } from "./opener.js";

type Axes = NonNullable<PlanWire["axes"]>;
type Axis = Axes[number];
type Open = NonNullable<PortWire["open"]>;
type Batch = NonNullable<PlanWire["batch"]>;

const refused = (message: string) => new KernelZooError("run", message);

/** The inputs of an axis that say what is spare, each with the extent of which it says that. */
const toldOf = ({ input, most, buckets = [] }: Axis): readonly (readonly [number, number])[] => [
  [input, most],
  ...buckets.map((bucket) => [bucket.input, bucket.most] as const),
];

/** The names of all such inputs. */
const toldInputs = ({ axes = [], inputs }: PlanWire) =>
  axes.flatMap(toldOf).map(([input]) => inputs[input]?.name);

const entriesOf = (feed: Feed): Entries => (feed as Shaped).data ?? (feed as Entries);

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
  const shape = port.shape.map((size, i) => (i === place ? extent : size));
  const stated = (feed as Shaped).shape;
  const given = stated ?? shape;
  const fits = Number.isInteger(spare) && spare >= 0 && most - spare >= least;
  if (fits && given.join() === shape.join()) return spare;
  throw refused(
    `Input ${port.name} takes ${shapeText(port, axes)}, where ${name} is from ${least} to ${most}, ` +
      `not ${stated ? stated.join("×") : `${entries.length} entries`}: cut or split it.`,
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
  const filled = new (given.constructor as new (length: number) => Int32Array<ArrayBuffer>)(length);
  // Arrays of 64 bits take what is of their own type alone.
  const isBig = typeof filled[0] === "bigint";
  filled.set(given as Int32Array);
  return filled.fill((isBig ? BigInt(beyond) : beyond) as number, given.length);
}

/** The feeds of the plan, with what each of its dimensions leaves out. Throws KernelZooError (run). */
function fitted(plan: PlanWire, axes: Axes, feeds: Feeds): [Feeds, readonly number[]] {
  const spare: number[] = [];
  const first: string[] = [];
  const paddedFeeds: Record<string, Feed> = { ...feeds };
  const axisInputs = toldInputs(plan);
  const known = plan.inputs.map(({ name }) => name).filter((name) => !axisInputs.includes(name));
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
    paddedFeeds[name] = padded(port, feed);
  }
  for (const [i, axis] of axes.entries()) {
    const extent = axis.most - (spare[i] ?? 0);
    for (const [input, most] of toldOf(axis)) {
      paddedFeeds[(plan.inputs[input] as PortWire).name] = [Math.max(0, most - extent)];
    }
  }
  return [paddedFeeds, spare];
}

/** Counts the entries of a batch; feeds without a shape are of one. Throws KernelZooError (run). */
function batchEntries(plan: PlanWire, batch: Batch, feeds: Feeds): number {
  let [entries, first]: [number | null, string] = [null, ""];
  for (const number of batch.inputs) {
    const { name, shape } = plan.inputs[number] as PortWire;
    const feed = Object.hasOwn(feeds, name) ? feeds[name] : undefined;
    if (feed === undefined || feed === null) continue;
    const stated = (feed as Shaped).shape;
    const own = stated?.length === shape.length ? (stated[0] as number) : 1;
    if (own !== (entries ?? own)) {
      throw refused(
        `${batch.name} is ${entries} in ${first} and ${own} in ${name}: give inputs of one extent, ` +
          "each with its shape.",
      );
    }
    [entries, first] = [own, first || name];
  }
  const { name, least, most } = batch;
  const given = entries ?? 1;
  if (Number.isInteger(given) && least <= given && given <= most) return given;
  throw refused(`${name} is ${given} in ${first} and may be from ${least} to ${most}: split it.`);
}

/** The feeds of one entry of a batch. */
function entryFeeds(plan: PlanWire, batch: Batch, feeds: Feeds, entry: number, of: number): Feeds {
  const own = batch.inputs.map((number) => plan.inputs[number]?.name as string);
  const cut = ([name, feed]: [string, Feed]): [string, Feed] => {
    const { data, shape }: Shaped = (feed ?? {}) as Shaped;
    if (!own.includes(name) || !data || !shape) return [name, feed];
    const length = data.length / of;
    // Of what has another length than its shape says the run's own sentence tells.
    if (productOf(shape) !== data.length) return [name, feed];
    const from = entry * length;
    const entries = ArrayBuffer.isView(data)
      ? (data as unknown as TensorData).subarray(from, from + length)
      : (Array.from(data as ArrayLike<number>).slice(from, from + length) as Entries);
    return [name, { data: entries, shape: [1, ...shape.slice(1)] }];
  };
  return Object.fromEntries(Object.entries(feeds).map(cut));
}

/** Has a model run every entry of a batch, and answer with the outputs of all. */
function serveBatch<Types extends ModelTypes>(
  model: Model<Types>,
  plan: PlanWire,
  batch: Batch,
): void {
  const run = model.run.bind(model);
  const joins = batch.outputs.map((number) => plan.outputs[number]?.name as string);
  Object.assign(model, {
    async run(feeds: Feeds, options?: RunOptions<Types["outputs"]>) {
      const count = batchEntries(plan, batch, feeds);
      const results: Record<string, TensorData>[] = [];
      for (let entry = 0; entry < count; entry++) {
        const own = entryFeeds(plan, batch, feeds, entry, count);
        results.push((await run(own as FeedsOf<Types>, options)) as Record<string, TensorData>);
      }
      const [first = {}] = results;
      if (count === 1) return first;
      return Object.fromEntries(
        Object.entries(first).map(([name, data]) => [
          name,
          joins.includes(name)
            ? joined(results.map((outputs) => outputs[name] as TensorData))
            : data,
        ]),
      );
    },
  });
}

function joined(parts: readonly TensorData[]): TensorData {
  const [first] = parts as [TensorData, ...TensorData[]];
  const kind = first.constructor as new (length: number) => Float32Array<ArrayBuffer>;
  const whole = new kind(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part as Float32Array<ArrayBuffer>, at);
    at += part.length;
  }
  return Object.assign(whole, { shape: [parts.length, ...(first.shape ?? []).slice(1)] });
}

/** Has a model take feeds of every extent that its plan serves, and answer as many entries. */
export function serveRanges<Types extends ModelTypes = AnyModel>(
  model: Model<Types>,
  { answer: { plan } }: Opener,
): void {
  const axes = plan.axes ?? [];
  const axisInputs = toldInputs(plan);
  const run = model.run.bind(model);
  Object.assign(model, {
    inputs: model.inputs.filter(({ name }) => !axisInputs.includes(name)),
    async run(feeds: Feeds, options?: RunOptions<Types["outputs"]>) {
      const [whole, spare] = fitted(plan, axes, feeds);
      const computed = await run(whole as FeedsOf<Types>, options);
      const outputs = { ...computed } as Record<string, TensorData>;
      for (const { name, open, shape: largest } of plan.outputs) {
        const left = open ? open.step * (spare[open.axis] ?? 0) : 0;
        const shape = largest.map((extent, i) => (i === open?.place ? extent - left : extent));
        const data = outputs[name] as TensorData;
        const own = open ? data.slice(0, productOf(shape)) : data;
        outputs[name] = Object.assign(own, { shape });
      }
      return outputs;
    },
  });
  if (plan.batch) serveBatch(model, plan, plan.batch);
}
