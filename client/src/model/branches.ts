/**
 * Plans of one model that are told apart by an input which their import took for a constant, such as
 * the branches of a merged decoder: `use_cache_branch` of a feed chooses one. Loaded with the first
 * such feed.
 */
import { KernelZooError } from "../engine/error.js";
import type { Feed, Feeds } from "./feeds.js";
import type { Dimensions } from "./request.js";

const refused = (message: string) => new KernelZooError("run", message);

/** The parts of a model that are used here. */
interface Branch<Outputs, Options> {
  readonly plan: { readonly dimensions: Dimensions };
  readonly inputs: readonly { readonly name: string }[];
  run(feeds: Feeds, options: Options): Promise<Outputs>;
  dispose(): Promise<void>;
}

/** The whole number that a feed of one entry is; NaN for any other feed. */
function numberOf(feed: Feed): number {
  const entries = "data" in feed ? feed.data : feed;
  const value = entries.length === 1 ? Number(entries[0]) : Number.NaN;
  return Number.isSafeInteger(value) && value >= 0 ? value : Number.NaN;
}

const isSame = (one: Dimensions, other: Dimensions): boolean =>
  Object.entries(one).every(([name, extent]) => other[name] === extent);

/** Runs a model by the plan that its feeds ask for, and owns those that were opened for a feed. */
export class Branches<Outputs, Options> {
  readonly #first: Branch<Outputs, Options>;
  readonly #open: (dimensions: Dimensions) => Promise<Branch<Outputs, Options>>;
  readonly #opening = new Map<string, Promise<Branch<Outputs, Options>>>();
  #opened: readonly Branch<Outputs, Options>[];
  #disposed = false;

  constructor(
    model: Branch<Outputs, Options>,
    open: (dimensions: Dimensions) => Promise<Branch<Outputs, Options>>,
  ) {
    this.#first = model;
    this.#open = open;
    this.#opened = [model];
  }

  /**
   * Runs the plan that the feeds ask for, as `run` of a model does. What is fed to a plan that is
   * open is read before anything is waited for.
   */
  async run(feeds: Feeds, options: Options): Promise<Outputs> {
    const asked = this.#asked(feeds);
    const known = this.#opened.find(({ plan }) => isSame(asked, plan.dimensions));
    const given = known === undefined ? structuredClone(feeds) : feeds;
    const model = known ?? (await this.#other(asked));
    // A branch does not read all that its model takes.
    const own = model.inputs.flatMap(({ name }) => {
      const feed = Object.hasOwn(given, name) ? given[name] : undefined;
      return feed === undefined ? [] : [[name, feed] as const];
    });
    return model.run(Object.fromEntries(own), options);
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    for (const model of await Promise.allSettled(this.#opening.values())) {
      if (model.status === "fulfilled") await model.value.dispose();
    }
  }

  /** The dimensions of the plan that feeds ask for. */
  #asked(feeds: Feeds): Dimensions {
    const { plan, inputs } = this.#first;
    const { dimensions } = plan;
    const asked: Record<string, number> = { ...dimensions };
    for (const [name, feed] of Object.entries(feeds)) {
      if (!Object.hasOwn(dimensions, name) || inputs.some((port) => port.name === name)) continue;
      asked[name] = numberOf(feed);
      if (Number.isNaN(asked[name])) {
        throw refused(
          `${name} chooses a plan of the model: give one whole number, or true or false.`,
        );
      }
    }
    return asked;
  }

  async #other(asked: Dimensions): Promise<Branch<Outputs, Options>> {
    if (this.#disposed) throw refused("The model was disposed of. Open it again.");
    const key = JSON.stringify(asked);
    const opening = this.#opening.get(key) ?? this.#checked(asked);
    this.#opening.set(key, opening);
    try {
      return await opening;
    } catch (thrown) {
      this.#opening.delete(key);
      throw thrown;
    }
  }

  /** A file on a static host is one plan, whatever is asked for. */
  async #checked(asked: Dimensions): Promise<Branch<Outputs, Options>> {
    const model = await this.#open(asked);
    if (isSame(asked, model.plan.dimensions)) {
      this.#opened = [...this.#opened, model];
      return model;
    }
    await model.dispose();
    const extents = Object.entries(asked).map(([name, extent]) => `${name}=${extent}`);
    throw refused(`This file is no plan for ${extents.join(", ")}: open the file that is.`);
  }
}
