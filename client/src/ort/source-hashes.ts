/**
 * Hashes a file of ONNX twice, as services/tuner/graph/source_hashes.py does and says: its graph
 * with the weights left out, and the weights. A zoo knows a model by the two.
 */
import { digestOf } from "../engine/sha256.js";
import { BYTES, fieldsOf, textOf } from "./protobuf.js";

/** Smaller tensors are a part of the graph. */
const WEIGHT_BYTES = 1024;
/** Messages within messages. */
const MAX_DEPTH = 64;

const ENTRIES = [4, 5, 6, 7, 9, 10, 11];
const [EXTERNAL_DATA, DATA_LOCATION] = [13, 14];
const LEFT_OUT = new Set([...ENTRIES, EXTERNAL_DATA, DATA_LOCATION]);

type Kind = "model" | "graph" | "node" | "attribute" | "function" | "tensor";

/** Fields whose messages may hold a tensor, by their numbers in onnx.proto. */
const HOLDS: Readonly<Record<Exclude<Kind, "tensor">, Readonly<Record<number, Kind>>>> = {
  model: { 7: "graph", 25: "function" },
  graph: { 1: "node", 5: "tensor" },
  node: { 5: "attribute" },
  attribute: { 5: "tensor", 6: "graph", 10: "tensor", 11: "graph" },
  function: { 7: "node" },
};

const END = new Uint8Array(1);

/** Entries of a weight as the file has them, or their place in another file. */
type Weight =
  | { readonly parts: readonly Uint8Array[] }
  | { readonly location: string; readonly offset: number; readonly length: number };

/** A file that lies beside the model, by its name in the model. Rejects where there is none. */
export type Beside = (location: string) => Promise<Uint8Array>;

export interface SourceHashes {
  readonly graph: string;
  /** Hashes the weights, by the browser's own code where the page has it. */
  weights(beside: Beside): Promise<string>;
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The digest of bytes, which are copied where they are in memory that workers share. */
const digest = (bytes: Uint8Array): Promise<string> =>
  digestOf(
    bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : bytes.slice(),
  );

function externalWeight(pairs: readonly Uint8Array[]): Weight {
  const place = new Map<string, string>();
  for (const pair of pairs) {
    let [key, value] = ["", ""];
    for (const field of fieldsOf(pair)) {
      if (field.number === 1) key = textOf(field);
      if (field.number === 2) value = textOf(field);
    }
    place.set(key, value);
  }
  const number = (name: string): number => Number(place.get(name) || 0);
  return {
    location: place.get("location") ?? "",
    offset: number("offset"),
    length: number("length"),
  };
}

class Walk {
  readonly pieces: Uint8Array[] = [];
  readonly weights: Weight[] = [];

  message(body: Uint8Array, kind: Kind, depth: number): void {
    if (depth > MAX_DEPTH) throw new Error("The file has graphs nested too deep.");
    if (kind === "tensor") {
      this.#tensor(body);
      return;
    }
    for (const field of fieldsOf(body)) {
      const inner = field.wire === BYTES ? HOLDS[kind][field.number] : undefined;
      if (inner === undefined) {
        this.pieces.push(field.whole);
        continue;
      }
      this.pieces.push(field.tag);
      this.message(field.payload, inner, depth + 1);
      this.pieces.push(END);
    }
  }

  #tensor(body: Uint8Array): void {
    const fields = [...fieldsOf(body)];
    const of = (...numbers: readonly number[]) =>
      fields.filter(({ number }) => numbers.includes(number)).map(({ payload }) => payload);
    const [entries, external] = [of(...ENTRIES), of(EXTERNAL_DATA)];
    const bytes = entries.reduce((length, part) => length + part.length, 0);
    const isWeight = external.length > 0 || bytes >= WEIGHT_BYTES;
    for (const { number, whole } of fields) {
      if (!(isWeight && LEFT_OUT.has(number))) this.pieces.push(whole);
    }
    if (!isWeight) return;
    this.weights.push(external.length > 0 ? externalWeight(external) : { parts: entries });
  }
}

async function weightDigest(weight: Weight, beside: Beside): Promise<string> {
  if ("parts" in weight) {
    const [first] = weight.parts;
    return digest(weight.parts.length === 1 && first ? first : joined(weight.parts));
  }
  const { location, offset, length } = weight;
  const file = await beside(location);
  const end = length > 0 ? offset + length : file.length;
  if (!(offset >= 0 && offset <= end && end <= file.length)) {
    throw new Error(`${location} was cut off.`);
  }
  return digest(file.subarray(offset, end));
}

/** Throws for a file that is no protocol buffer. */
export async function sourceHashes(file: Uint8Array): Promise<SourceHashes> {
  const walk = new Walk();
  walk.message(file, "model", 0);
  return {
    graph: await digest(joined(walk.pieces)),
    async weights(beside) {
      let digests = "";
      for (const weight of walk.weights) digests += await weightDigest(weight, beside);
      return digest(new TextEncoder().encode(digests));
    },
  };
}
