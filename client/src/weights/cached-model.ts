/**
 * A graph as it is kept on the device: what the zoo answered for a model, its modules, and its weights
 * as calls read them, in pieces with their checksums. Page and worker read it.
 */

import type { Placement, WeightCopy } from "../backend/wasm/memory.js";
import type { Linked } from "../backend/wasm/program.js";
import type { ModelAnswer, PlanWire, WeightWire } from "../wire/model-answer.js";
import type { FilesKind } from "./cache-files.js";
import { type PlacedChunk, placedChunks } from "./stream.js";

/** Names the form of a graph and the meaning of packing; raised when either changes. */
export const GRAPH_VERSION = 4;
export const PIECE_BYTES = 1 << 20;
/** Caches of this name and a key have a language model each. */
export const LANGUAGE_CACHES = "kernelzoo-language:";

/** One weight in the file. `key` says of which bytes it was made, and by which pack kernels. */
export interface KeptWeight {
  readonly key: string;
  /** True where it lies there as its author stored it, and is packed when it is read. */
  readonly plain: boolean;
  readonly at: number;
  readonly bytes: number;
  /** Checksums of pieces of a mebibyte, the last one shorter. */
  readonly pieces: readonly string[];
}

/** A module, or the text of a kernel on a GPU, in base64, and which export of it is which artifact. */
export interface KeptModule {
  readonly bytes: string;
  readonly functions: Linked["functions"];
}

/** Milliseconds that this device measured; zero where it has not. */
export interface MeasuredCosts {
  /** A mebibyte is read and held to its checksum in so long. */
  readonly readMs: number;
  /** One for each weight. */
  readonly packMs: readonly number[];
  /** One for each call. */
  readonly runMs: readonly number[];
}

/** The weights that each thread is to prepare, and the costs by which that was decided. */
export interface Planned {
  readonly costs: MeasuredCosts;
  readonly queues: readonly (readonly number[])[];
}

/**
 * The schedule of kept weights; `plain` says which this device packs sooner than it reads them
 * packed, when they are larger.
 */
export interface Ways extends Planned {
  readonly plain: readonly boolean[];
}

/** The description of a graph, which is written after its weights. */
export interface Graph extends Planned {
  readonly version: number;
  readonly key: string;
  readonly answer: ModelAnswer;
  /** Addresses of the answer are relative to it. */
  readonly origin: string;
  readonly modules: readonly KeptModule[];
  readonly weights: readonly KeptWeight[];
}

/** A graph that a worker is to read. */
export interface GraphOrder extends Planned {
  readonly files: FilesKind;
  readonly name: string;
  readonly weights: readonly KeptWeight[];
  /** The kernels of a graph that is opened by its key: nothing comes from the network then. */
  readonly modules: readonly Linked[] | null;
  /** The kernels of such a graph on a GPU: their texts by their hashes. */
  readonly texts: Readonly<Record<string, string>> | null;
}

/** The places of a weight: of its copies, from first to last, and plain before it is packed. */
export interface Place {
  readonly key: string;
  readonly copies: readonly WeightCopy[];
  readonly address: number;
  /** Bytes from `address` up to the next weight. */
  readonly bytes: number;
  readonly plain: number;
  readonly plainBytes: number;
  /** It lies plain in the area that one thread has, only until it is packed. */
  readonly staged: boolean;
  /** True where it can be kept plain: its bytes are in memory, or in the file as they are. */
  readonly keptPlain: boolean;
}

/** Returns the place of each weight. Two weights of one key are the same bytes. */
export function placesOf(
  plan: PlanWire,
  { weights, plain, totalBytes }: Pick<Placement, "weights" | "plain" | "totalBytes">,
): readonly Place[] {
  const addresses = [...weights.map((copies) => copies[0]?.address as number), totalBytes];
  const chunks = placedChunks(plan.chunks);
  return weights.map((copies, i) => {
    const weight = plan.weights[i] as WeightWire;
    const packs = copies.map(({ pack }) => pack?.sha256 ?? "plain");
    const address = addresses[i] as number;
    const staged = copies[0]?.pack !== null;
    return {
      key: keyOf(chunks, weight, packs),
      copies,
      address,
      bytes: (addresses[i + 1] as number) - address,
      plain: plain[i] as number,
      plainBytes: weight.bytes,
      staged,
      keptPlain: !staged || weight.storage === undefined,
    };
  });
}

/** On a GPU each weight lies plain in a buffer of its own; it is read by its place in the plain file. */
export function placesOnGpu(plan: PlanWire): readonly Place[] {
  const chunks = placedChunks(plan.chunks);
  return plan.weights.map((weight) => {
    const { offset: address, bytes } = weight;
    const key = keyOf(chunks, weight, ["plain"]);
    const plain = { plain: address, plainBytes: bytes, staged: false, keptPlain: true };
    return { key, copies: [], address, bytes, ...plain };
  });
}

function keyOf(chunks: readonly PlacedChunk[], weight: WeightWire, packs: readonly string[]) {
  const { offset, bytes } = weight.storage ?? weight;
  const hashes = within(chunks, offset, bytes).map(({ chunk }) => chunk.sha256);
  return JSON.stringify([offset, bytes, ...packs, ...hashes]);
}

const within = (chunks: readonly PlacedChunk[], offset: number, bytes: number) =>
  chunks.filter(({ start, end }) => start < offset + bytes && end > offset);

/** The chunks that bytes of the file lie in. */
export const chunksOf = ({ chunks }: PlanWire, offset: number, bytes: number) =>
  within(placedChunks(chunks), offset, bytes);
