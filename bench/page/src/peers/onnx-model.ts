/**
 * ONNX models of one node, as protobuf (onnx/onnx.proto): just the fields that a runtime needs.
 * A field is a key, number·8 + wire type, and a varint or a length with that many bytes.
 */
type Bytes = Uint8Array<ArrayBuffer>;

export interface Value {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A value that the model holds. */
export interface Constant extends Value {
  readonly data: Float32Array;
}

/** A number with a point is `real`. */
export type Attribute =
  | { readonly name: string; readonly whole: number }
  | { readonly name: string; readonly real: number }
  | { readonly name: string; readonly wholes: readonly number[] };

export interface Node {
  readonly operator: string;
  readonly attributes: readonly Attribute[];
  readonly inputs: readonly string[];
  readonly output: string;
}

export interface Graph {
  /** The release of ONNX's operators that has this one. */
  readonly operatorSet: number;
  /** Inputs and output are of float16; there are no constants then. */
  readonly isF16: boolean;
  readonly node: Node;
  readonly inputs: readonly Value[];
  readonly constants: readonly Constant[];
  readonly output: Value;
}

const IR_VERSION = 8;
const FLOAT = 1;
const FLOAT16 = 10;
/** Types of an AttributeProto. */
const REAL_ATTRIBUTE = 1;
const WHOLE_ATTRIBUTE = 2;
const WHOLES_ATTRIBUTE = 7;

function joined(parts: readonly Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function varint(value: number): Bytes {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Uint8Array.from([...bytes, rest]);
}

const whole = (field: number, value: number): Bytes => joined([varint(field * 8), varint(value)]);

const bytes = (field: number, content: Bytes): Bytes =>
  joined([varint(field * 8 + 2), varint(content.length), content]);

const text = (field: number, content: string): Bytes =>
  bytes(field, new TextEncoder().encode(content));

const message = (field: number, ...content: readonly Bytes[]): Bytes =>
  bytes(field, joined(content));

const real = (field: number, value: number): Bytes =>
  joined([varint(field * 8 + 5), new Uint8Array(Float32Array.of(value).buffer)]);

/** -1 is ten bytes of two's complement in protobuf; no attribute here is negative. */
function attributeValue(attribute: Attribute): readonly Bytes[] {
  if ("real" in attribute) return [real(2, attribute.real), whole(20, REAL_ATTRIBUTE)];
  if ("whole" in attribute) return [whole(3, attribute.whole), whole(20, WHOLE_ATTRIBUTE)];
  return [...attribute.wholes.map((value) => whole(8, value)), whole(20, WHOLES_ATTRIBUTE)];
}

const attributeOf = (attribute: Attribute): Bytes =>
  message(5, text(1, attribute.name), ...attributeValue(attribute));

/** ValueInfoProto: a dense tensor of floats. */
function valueInfo(field: number, { name, shape }: Value, isF16: boolean): Bytes {
  const extents = shape.map((extent) => message(1, whole(1, extent)));
  const tensor = message(1, whole(1, isF16 ? FLOAT16 : FLOAT), message(2, ...extents));
  return message(field, text(1, name), bytes(2, tensor));
}

/** TensorProto with raw data, little-endian as every engine of WebAssembly. */
function initializer({ name, shape, data }: Constant): Bytes {
  // A copy: views of shared memory are refused by TextDecoder and others that runtimes use.
  const raw = new Uint8Array(data.slice().buffer);
  const extents = shape.map((extent) => whole(1, extent));
  return message(5, ...extents, whole(2, FLOAT), text(8, name), bytes(9, raw));
}

export function onnxModel(graph: Graph): Bytes {
  const { node, inputs, constants, output, isF16, operatorSet } = graph;
  const operator = message(
    1,
    ...node.inputs.map((name) => text(1, name)),
    text(2, node.output),
    text(4, node.operator),
    ...node.attributes.map(attributeOf),
  );
  const content = message(
    7,
    operator,
    text(2, "bench"),
    ...constants.map(initializer),
    ...inputs.map((value) => valueInfo(11, value, isF16)),
    valueInfo(12, output, isF16),
  );
  return joined([whole(1, IR_VERSION), message(8, whole(2, operatorSet)), content]);
}
