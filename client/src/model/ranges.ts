/**
 * Runs a plan that serves a range of extents: feeds say which by their length or shape, those of a
 * batch by their shape alone. Loaded with the first such plan.
 */
import { KernelZooError } from "../engine/error.js";
import { productOf } from "../engine/tensors.js";
import { eachRow, type Open, openPlaces, shapeOfRun } from "../executor/open-places.js";
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
type Batch = NonNullable<PlanWire["batch"]>;

const refused = (message: string) => new KernelZooError("run", message);

/** The inputs of an axis that say what is spare, each with the extent of which it says that. */
const toldOf = ({ input, most, buckets = [] }: Axis): readonly (readonly [number, number])[] => [
  [input, most],
  ...buckets.map((bucket) => [bucket.input, bucket.most] as const),
];

/** The numbers of all such inputs, and of those that say what is spare of sums. */
const toldInputs = ({ axes = [], sums = [] }: PlanWire) =>
  new Set([...axes.flatMap(toldOf).map(([input]) => input), ...sums.map(({ input }) => input)]);

const entriesOf = (feed: Feed): Entries => (feed as Shaped).data ?? (feed as Entries);

/** `1×sequence`, with the names of dimensions that have a range. */
function shapeText(port: PortWire, axes: Axes): string {
  const places = openPlaces(port);
  return port.shape
    .map((extent, i) => {
      const open = places.get(i);
      if (open === undefined) return extent;
      const names = open.map(
        ({ axis, step }) => (step > 1 ? `${step}·` : "") + (axes[axis] as Axis).name,
      );
      const more = open.reduce(
        (left, { axis, step }) => left - step * (axes[axis] as Axis).most,
        extent,
      );
      return [...names, ...(more > 0 ? [more] : [])].join("+");
    })
    .join("×");
}

/** The refusal of a feed that has no shape that an input takes. */
function unfit(port: PortWire, feed: Feed, axes: Axes): KernelZooError {
  const places = openPlaces(port);
  const open = [...places.values()].flat().map(({ axis }) => axis);
  const ranges = [...new Set(open)].map((axis) => {
    const { name, least, most } = axes[axis] as Axis;
    return `${name} is from ${least} to ${most}`;
  });
  const given = (feed as Shaped).shape?.join("×") ?? `${entriesOf(feed).length} entries`;
  const remedy = places.size > 1 ? "give it with its shape, within these" : "cut or split it";
  return refused(
    `Input ${port.name} takes ${shapeText(port, axes)}, where ${ranges.join(" and ")}, ` +
      `not ${given}: ${remedy}.`,
  );
}

/** The shape of a feed; of one that states none, where one place is open. Throws KernelZooError (run). */
function shapeOf(port: PortWire, feed: Feed, axes: Axes): readonly number[] {
  const { shape } = port;
  const places = openPlaces(port);
  const entries = entriesOf(feed);
  const [place, another] = places.keys();
  const inner = productOf(shape) / (shape[place as number] as number);
  const inferred = shape.map((size, i) => (i === place ? entries.length / inner : size));
  const own = (feed as Shaped).shape ?? (another === undefined ? inferred : shape);
  const fits =
    own.length === shape.length &&
    own.every((size, i) =>
      places.has(i) ? size >= 0 && size <= (shape[i] as number) : size === shape[i],
    ) &&
    productOf(own) === entries.length;
  if (fits) return own;
  throw unfit(port, feed, axes);
}

/** An open place of a feed, with how many entries fewer it has than the largest. */
interface Told {
  readonly port: PortWire;
  readonly feed: Feed;
  readonly open: readonly Open[];
  readonly less: number;
}

/** Gathers from feeds what a run leaves out of each dimension. Throws KernelZooError (run). */
class Extents {
  readonly spare: number[] = [];
  readonly #axes: Axes;
  readonly #first: string[] = [];

  constructor(axes: Axes) {
    this.#axes = axes;
  }

  note({ port, feed, open, less }: Told): void {
    const unknown = open.filter(({ axis }) => this.spare[axis] === undefined);
    const known = open.reduce((sum, { axis, step }) => sum + step * (this.spare[axis] ?? 0), 0);
    const [one, another] = unknown;
    if (one === undefined && known === less) return;
    if (one === undefined) throw this.#differing(port, open, less);
    if (another !== undefined) throw unfit(port, feed, this.#axes);
    const spare = (less - known) / one.step;
    const { least, most } = this.#axes[one.axis] as Axis;
    const fits = Number.isInteger(spare) && spare >= 0 && most - spare >= least;
    if (!fits) throw unfit(port, feed, this.#axes);
    this.spare[one.axis] = spare;
    this.#first[one.axis] = port.name;
  }

  #differing(port: PortWire, open: readonly Open[], less: number): KernelZooError {
    const known = open.map(({ axis }) => {
      const { name, most } = this.#axes[axis] as Axis;
      return `${name} is ${most - (this.spare[axis] as number)} in ${this.#first[axis]}`;
    });
    const [{ step }] = open as [Open];
    const most = open.reduce((sum, { axis }) => sum + (this.#axes[axis] as Axis).most, 0);
    const names = open.map(({ axis }) => this.#axes[axis]?.name).join("+");
    const extent = most - less / step;
    const other = open.length > 1 ? `${names} is ${extent}` : extent;
    return refused(
      `${known.join(" and ")} and ${other} in ${port.name}: give inputs of one extent.`,
    );
  }
}

/**
 * The entries of a feed, and beside integers what an input takes where nobody reads it. Real numbers
 * stay as many as there are: the worker puts them into their places.
 */
function padded(port: PortWire, feed: Feed, dims: readonly number[]): Feed {
  const { shape } = port;
  const entries = entriesOf(feed);
  const length = productOf(shape);
  if (entries.length === length) return entries;
  if (port.dtype === "float32") return { data: entries, shape: dims, isFirst: true };
  // Any row does; arrays of a page may hold no negative numbers.
  const [least, most] = port.rows ?? [0, 0];
  const beyond = Math.min(Math.max(0, least), most);
  if (!ArrayBuffer.isView(entries)) {
    const some = Array.from(entries as ArrayLike<number>);
    const filled = new Array(length).fill(beyond);
    eachRow(shape, dims, (there, here, length) => {
      for (let i = 0; i < length; i++) filled[there + i] = some[here + i];
    });
    return filled;
  }
  const given = entries as unknown as Int32Array<ArrayBuffer>;
  const filled = new (given.constructor as new (length: number) => Int32Array<ArrayBuffer>)(length);
  // Arrays of 64 bits take what is of their own type alone.
  const isBig = typeof filled[0] === "bigint";
  if (beyond !== 0) filled.fill((isBig ? BigInt(beyond) : beyond) as number);
  eachRow(shape, dims, (there, here, length) =>
    filled.set(given.subarray(here, here + length), there),
  );
  return filled;
}

/** The feeds of the plan, with what each of its dimensions leaves out. Throws KernelZooError (run). */
function fitted(plan: PlanWire, axes: Axes, feeds: Feeds): [Feeds, readonly number[]] {
  const paddedFeeds: Record<string, Feed> = { ...feeds };
  const spareInputs = toldInputs(plan);
  const ports = plan.inputs.filter((_, number) => !spareInputs.has(number));
  const known = ports.map(({ name }) => name);
  const other = Object.keys(feeds).find((name) => !known.includes(name));
  if (other !== undefined) throw refused(misfitText(new Misfit("unknown", { name: other }, known)));
  const places: Told[] = [];
  for (const port of ports) {
    const feed = Object.hasOwn(feeds, port.name) ? feeds[port.name] : undefined;
    if (port.open === undefined || feed === undefined || feed === null) continue;
    const dims = shapeOf(port, feed, axes);
    for (const [place, open] of openPlaces(port)) {
      const less = (port.shape[place] as number) - (dims[place] as number);
      places.push({ port, feed, open, less });
    }
    paddedFeeds[port.name] = padded(port, feed, dims);
  }
  const extents = new Extents(axes);
  // Places of one dimension say what those of several are held to.
  for (const place of places.sort((a, b) => a.open.length - b.open.length)) extents.note(place);
  const spare = axes.map((_, i) => extents.spare[i] ?? 0);
  const tell = (input: number, left: number) => {
    paddedFeeds[(plan.inputs[input] as PortWire).name] = [left];
  };
  for (const [i, axis] of axes.entries()) {
    const extent = axis.most - (spare[i] as number);
    for (const [input, most] of toldOf(axis)) tell(input, Math.max(0, most - extent));
  }
  for (const { factors, input } of plan.sums ?? []) {
    tell(
      input,
      factors.reduce((sum, n, i) => sum + n * (spare[i] as number), 0),
    );
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
  const spareInputs = toldInputs(plan);
  const run = model.run.bind(model);
  Object.assign(model, {
    inputs: model.inputs.filter((_, number) => !spareInputs.has(number)),
    async run(feeds: Feeds, options?: RunOptions<Types["outputs"]>) {
      const [whole, spare] = fitted(plan, axes, feeds);
      const computed = await run(whole as FeedsOf<Types>, options);
      const outputs = { ...computed } as Record<string, TensorData>;
      for (const port of plan.outputs) {
        const shape = shapeOfRun(port, spare);
        outputs[port.name] = Object.assign(outputs[port.name] as TensorData, { shape });
      }
      return outputs;
    },
  });
  if (plan.batch) serveBatch(model, plan, plan.batch);
}
