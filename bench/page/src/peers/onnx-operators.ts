/** Workloads as ONNX models of one node, with their tensors in the order of axes that ONNX has. */
import { type Attribute, onnxModel } from "./onnx-model.js";
import { type PeerTensor, type Task, VARIANCE_FLOOR } from "./problem.js";

interface Dense {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** Axis `i` of the answer is axis `order[i]` of the tensor. */
function permuted({ shape, data }: Dense, order: readonly number[]): Dense {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((all, n) => all * n, 1));
  const extents = order.map((axis) => shape[axis] as number);
  const steps = order.map((axis) => strides[axis] as number);
  const result = new Float32Array(data.length);
  let at = 0;
  const walk = (axis: number, from: number): void => {
    if (axis === extents.length) {
      result[at++] = data[from] as number;
      return;
    }
    for (let i = 0; i < (extents[axis] as number); i++) {
      walk(axis + 1, from + i * (steps[axis] as number));
    }
  };
  walk(0, 0);
  return { shape: extents, data: result };
}

type Given = Task["given"];

/** ONNX's name of an operator; its inputs are the workload's, in order. */
interface Operator {
  readonly name: string;
  /** The first release of ONNX's operators that has it, where that is late. */
  readonly since?: number;
  readonly attributes: (given: Given) => readonly Attribute[];
  /** Orders of the inputs' axes where ONNX has others, and from its output's axes to ours. */
  readonly orders?: { readonly inputs: readonly (readonly number[])[]; readonly output: number[] };
}

const OPERATOR_SET = 17;

const product: Operator = { name: "MatMul", attributes: () => [] };

/** Channels come first, and weights of an output channel together. */
const convolution: Operator = {
  name: "Conv",
  attributes: ({ stride = Number.NaN, pad = Number.NaN }) => [
    { name: "strides", wholes: [stride, stride] },
    { name: "pads", wholes: [pad, pad, pad, pad] },
  ],
  orders: {
    inputs: [
      [0, 3, 1, 2],
      [3, 2, 0, 1],
    ],
    output: [0, 2, 3, 1],
  },
};

const OPERATORS: Readonly<Record<string, Operator>> = {
  matmul: product,
  batch_matmul: product,
  conv2d: convolution,
  add: { name: "Add", attributes: () => [] },
  gelu: { name: "Gelu", since: 20, attributes: () => [] },
  softmax: { name: "Softmax", attributes: () => [{ name: "axis", whole: 1 }] },
  layer_norm: {
    name: "LayerNormalization",
    attributes: () => [
      { name: "axis", whole: 1 },
      { name: "epsilon", real: VARIANCE_FLOOR },
    ],
  },
};

/** The problem with its axes as ONNX has them. */
export interface Laid {
  readonly operator: Operator;
  readonly inputs: readonly PeerTensor[];
  readonly outputShape: readonly number[];
}

export function laid({ operator, inputs, output }: Task): Laid {
  const known = OPERATORS[operator];
  if (known === undefined) throw new Error(`no ONNX operator is named for ${operator}`);
  const { orders } = known;
  if (orders === undefined) return { operator: known, inputs, outputShape: output.shape };
  const outputShape: number[] = [];
  for (const [ours, axis] of orders.output.entries()) outputShape[axis] = output.shape[ours] ?? 0;
  return {
    operator: known,
    inputs: inputs.map((tensor, i) => ({ ...tensor, ...permuted(tensor, orders.inputs[i] ?? []) })),
    outputShape,
  };
}

/** The model of one node, which holds the last `constants` inputs. */
export function model(problem: Task, { operator, inputs, outputShape }: Laid, constants: number) {
  const fed = inputs.slice(0, inputs.length - constants);
  const held = inputs.slice(inputs.length - constants);
  const node = {
    operator: operator.name,
    attributes: operator.attributes(problem.given),
    inputs: inputs.map(({ name }) => name),
    output: problem.output.name,
  };
  const output = { name: problem.output.name, shape: outputShape };
  const graph = { node, inputs: fed, constants: held, output, isF16: problem.isF16 };
  return { bytes: onnxModel({ ...graph, operatorSet: operator.since ?? OPERATOR_SET }), fed };
}

/** The model's output with our order of axes. */
export function asOurs(data: Float32Array, { operator, outputShape }: Laid): Float32Array {
  const order = operator.orders?.output;
  return order === undefined ? data : permuted({ shape: outputShape, data }, order).data;
}
