import * as ort from "onnxruntime-web/wasm";
import { maxDifference } from "../../../../client/src/engine/compare.js";
import { type Entrant, warmAsync } from "../contestant.js";
import { permuted } from "./layouts.js";
import { type Attribute, onnxModel } from "./onnx-model.js";
import { type PeerTensor, type Problem, VARIANCE_FLOOR } from "./problem.js";

type Given = Problem["given"];

/** ONNX's name of an operator; its inputs are the workload's, in order. */
interface Operator {
  readonly name: string;
  readonly attributes: (given: Given) => readonly Attribute[];
  /** Orders of the inputs' axes where ONNX has others, and from its output's axes to ours. */
  readonly orders?: { readonly inputs: readonly (readonly number[])[]; readonly output: number[] };
}

const product: Operator = { name: "MatMul", attributes: () => [] };

/** Channels come first, and weights of an output channel together. */
const convolution: Operator = {
  name: "Conv",
  attributes: ({ s = 1, p = 0 }) => [
    { name: "strides", wholes: [s, s] },
    { name: "pads", wholes: [p, p, p, p] },
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
  softmax: { name: "Softmax", attributes: () => [{ name: "axis", whole: 1 }] },
  layer_norm: {
    name: "LayerNormalization",
    attributes: () => [
      { name: "axis", whole: 1 },
      { name: "epsilon", real: VARIANCE_FLOOR },
    ],
  },
};

/** Takes effect with the first session. */
export function setOnnxRuntime(threads: number): void {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = "/onnxruntime-web/";
  ort.env.logLevel = "error";
}

/** The problem with its axes as ONNX has them. */
interface Laid {
  readonly operator: Operator;
  readonly inputs: readonly PeerTensor[];
  readonly outputShape: readonly number[];
}

function laid({ operator, inputs, output }: Problem): Laid {
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

function model(problem: Problem, { operator, inputs, outputShape }: Laid, constants: number) {
  const fed = inputs.slice(0, inputs.length - constants);
  const held = inputs.slice(inputs.length - constants);
  const node = {
    operator: operator.name,
    attributes: operator.attributes(problem.given),
    inputs: inputs.map(({ name }) => name),
    output: problem.output.name,
  };
  const output = { name: problem.output.name, shape: outputShape };
  return { bytes: onnxModel({ node, inputs: fed, constants: held, output }), fed };
}

/** Its output with our order of axes. */
function asOurs(data: Float32Array, { operator, outputShape }: Laid): Float32Array {
  const order = operator.orders?.output;
  return order === undefined ? data : permuted({ shape: outputShape, data }, order).data;
}

async function entrant(
  name: string,
  problem: Problem,
  constants: number,
  threads: number,
  stepMs: number,
): Promise<Entrant> {
  const own = laid(problem);
  const { bytes, fed } = model(problem, own, constants);
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const feeds = Object.fromEntries(
    fed.map((each) => [each.name, new ort.Tensor("float32", each.data.slice(), each.shape)]),
  );
  const outputs = await session.run(feeds);
  const data = outputs[problem.output.name]?.data as Float32Array;
  const difference = maxDifference(asOurs(data, own), problem.output.data);
  const timed = await warmAsync(async () => void (await session.run(feeds)), stepMs);
  const { flops } = problem;
  return { name, threads, flops, difference, timed, dispose: () => void session.release() };
}

/**
 * With every tensor fed, and, where there is more than one, with all but the first held by the
 * model, as weights are. A fed tensor is copied on every run.
 */
export async function onnxRuntimeEntrants(
  problem: Problem,
  threads: number,
  stepMs: number,
): Promise<readonly Entrant[]> {
  const weights = problem.inputs.length - 1;
  const fed = await entrant("ort-input", problem, 0, threads, stepMs);
  if (weights === 0) return [fed];
  return [fed, await entrant("ort-constant", problem, weights, threads, stepMs)];
}
