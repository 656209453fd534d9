/** Reads the names, types and shapes of a model's inputs and outputs from a file of ONNX. */
import type { InferenceSession, Tensor } from "onnxruntime-common";
import { fieldsOf, numberOf, textOf } from "./protobuf.js";

type Metadata = InferenceSession.ValueMetadata;

export interface GraphPorts {
  readonly inputs: readonly Metadata[];
  readonly outputs: readonly Metadata[];
}

/** Element types by their numbers in onnx.proto. */
const TYPES: Readonly<Record<number, Tensor.Type>> = {
  1: "float32",
  2: "uint8",
  3: "int8",
  4: "uint16",
  5: "int16",
  6: "int32",
  7: "int64",
  8: "string",
  9: "bool",
  10: "float16",
  11: "float64",
  12: "uint32",
  13: "uint64",
  21: "uint4",
  22: "int4",
};

const fieldOf = (body: Uint8Array, number: number) =>
  [...fieldsOf(body)].find((field) => field.number === number);

/** An extent, or the name of one that is open; that of an axis without either is empty. */
function extentOf(dimension: Uint8Array): number | string {
  let extent: number | string = "";
  for (const field of fieldsOf(dimension)) {
    if (field.number === 1) extent = numberOf(field);
    if (field.number === 2) extent = textOf(field);
  }
  return extent;
}

function portOf(info: Uint8Array, overrides: Readonly<Record<string, number>>): Metadata {
  const nameField = fieldOf(info, 1);
  const name = nameField ? textOf(nameField) : "";
  const typeField = fieldOf(info, 2);
  const tensor = typeField && fieldOf(typeField.payload, 1);
  const element = tensor && fieldOf(tensor.payload, 1);
  const type = element && TYPES[numberOf(element)];
  if (tensor === undefined || type === undefined) return { name, isTensor: false };
  const shapeField = fieldOf(tensor.payload, 2);
  const axes = shapeField ? [...fieldsOf(shapeField.payload)] : [];
  const shape = axes.map(({ payload }) => {
    const extent = extentOf(payload);
    return Object.hasOwn(overrides, extent) ? (overrides[extent] as number) : extent;
  });
  return { name, isTensor: true, type, shape };
}

/**
 * Inputs that are weights of the file are none of a session's. `overrides` are extents of dimensions
 * that the file leaves open, by their names. Throws for a file that is no model.
 */
export function graphPorts(
  file: Uint8Array,
  overrides: Readonly<Record<string, number>> = {},
): GraphPorts {
  const [graph] = [...fieldsOf(file)].filter(({ number }) => number === 7);
  if (graph === undefined) throw new Error("The file has no graph.");
  const [inputs, outputs]: [Metadata[], Metadata[]] = [[], []];
  const weights = new Set<string>();
  for (const { number, payload } of fieldsOf(graph.payload)) {
    if (number === 5) {
      const name = fieldOf(payload, 8);
      if (name !== undefined) weights.add(textOf(name));
    }
    if (number === 11) inputs.push(portOf(payload, overrides));
    if (number === 12) outputs.push(portOf(payload, overrides));
  }
  return { inputs: inputs.filter(({ name }) => !weights.has(name)), outputs };
}
