/** Sentences on what pages did wrong, which are loaded when one is needed. */

import { MOST_BYTES, UNADDRESSABLE } from "../backend/wasm/addresses.js";
import { unknownName } from "../engine/spelling.js";
import { productOf } from "../engine/tensors.js";
import type { Answer } from "../gateway/request.js";
import type { Misfit, MisfitDetails } from "../model/feeds.js";
import type { MemoryLack } from "../model/memory-budget.js";
import type { ModelAnswer } from "../wire/model-answer.js";
import type { Manifest, TargetKind } from "../wire/types.js";
import { BACKENDS } from "./backend.js";

export { unknownName };

const MILLISECONDS = "a number of milliseconds";
const TRUTH = "true or false";

/** The values that options may have, as `VALUES` of the zoo tests them. */
const EXPECTED: Readonly<Record<string, string>> = {
  backend: `one of ${BACKENDS.join(", ")}`,
  budgetMs: `${MILLISECONDS}, 0 or more`,
  buffers: "an object of GPU buffers by the names of tensors",
  bundle: "the text that zoo.lock has as index",
  check: 'true, false or "first"',
  constant: "an object of values by the names of inputs",
  contextLength: "a number of tokens, 1 or more",
  contribute: `${TRUTH}, or { application: "its name" }`,
  device: "a GPUDevice",
  deviceClass: "a class such as zoo.deviceClass tells, 0123456789abcdef:r3-01:wasm+simd128",
  dimensions: "an object of numbers by the names of dimensions, such as { sequence: 128 }",
  into: "an object of outputs of an earlier run, typed arrays by their names",
  maxAgeMs: `${MILLISECONDS}, 0 or more`,
  memoryBytes: "a number of bytes, 1 or more",
  onProgress: "a function",
  runs: "a number of runs, 1 or more",
  save: "a text, the key under which the model is kept",
  signal: "an AbortSignal",
  timeoutMs: `${MILLISECONDS} from 1 to ${2 ** 31 - 1}`,
  tune: '"idle" or "off"',
  use: '"best" or "fallback"',
  verify: TRUTH,
  weights: "a File or another Blob",
};

/** Says what is wrong with a name, or with options, of which `unfit` is the first that is wrong. */
export function misuse(
  where: string,
  name: unknown,
  options: object,
  known: readonly string[],
  unfit: readonly [option: string, value: unknown] | undefined,
): string {
  if (typeof name !== "string" || name === "") return `${where} takes a name, not "${name}".`;
  if (unfit === undefined || typeof options !== "object") {
    return `${where} takes options as an object, not ${options}.`;
  }
  const [option, value] = unfit;
  const given = typeof value === "string" ? `"${value}"` : String(value);
  return (
    unknownName(where, { [option]: value }, known) ??
    `${option} is to be ${EXPECTED[option]}; ${given} was given.`
  );
}

const CONSTANT = ":constant=";

const EXTENT = /[a-z]+(\d+)/g;

/** The command that registers a workload, as in `kernelzoo tune matmul 384x768x768`. */
export function registerCommand(key: string): string {
  const [operator = key, dtype, extents = ""] = key.split(":");
  if (dtype === "f16") return `kernelzoo tune ${key} --target webgpu`;
  if (key.includes(CONSTANT)) return `kernelzoo tune ${key}`;
  const sizes = [...extents.matchAll(EXTENT)].map(([, size]) => size);
  return `kernelzoo tune ${operator} ${sizes.join("x")}`.trimEnd();
}

type RefusedAnswer = Extract<Answer<string>, { readonly kind: "refused" }>;

/** Says why the zoo has nothing for a workload or a set of them. */
export function refusedName(name: string, { status, detail }: RefusedAnswer): string {
  if (status !== 404) return `The zoo refuses ${name}: ${detail}`;
  const remedy = name.includes(":")
    ? `Register it on the machine of the zoo: ${registerCommand(name)}`
    : "Register the set of workloads first.";
  return `The zoo does not know ${name}. ${remedy} (${detail})`;
}

/** Says why a manifest has no entry for a workload. */
export const noEntry = ({ set, missing }: Manifest, workload: string): string =>
  missing.includes(workload)
    ? `${workload} is registered, but no kernel of it has been compiled yet. Try again in a few seconds.`
    : `${workload} is not in ${set}. Add it there.`;

/** Says why there is no model of that name. */
export function noModel(
  url: URL,
  name: string,
  { status, detail, byGateway }: RefusedAnswer,
): string {
  if (status !== 404 || !byGateway) return `${url} answered ${status}: ${detail}`;
  return `The zoo has no such model: ${detail} Add it: kernelzoo models add FILE --name ${name}`;
}

/** Says why an answer cannot be read as a model. */
export const notOf = (origin: URL, name: string, { message }: Error): string =>
  `${name} is no model of ${origin}: ${message}`;

const mib = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/**
 * Tells why a model of so many bytes does not fit beside those that are open. Of WebAssembly no page
 * can have more than it addresses.
 */
export function noRoom(
  name: string,
  bytes: number,
  { leftBytes, others }: MemoryLack,
  target: TargetKind,
): string {
  if (bytes > MOST_BYTES && target !== "webgpu") {
    return `${name} takes ${mib(bytes)}; ${UNADDRESSABLE}`;
  }
  const open = others.map((model) => `${model.name} (${mib(model.bytes)})`).join(", ");
  const remedy = open === "" ? "Give more memoryBytes" : `Dispose of ${open}`;
  return `${name} takes ${mib(bytes)}; ${mib(Math.max(0, leftBytes))} are left. ${remedy}.`;
}

/**
 * Says why an answer is no model of the kind that was asked for; `need` is one that no reader
 * knows.
 */
export function otherKind(url: URL, answer: ModelAnswer, need?: string): string {
  const { name, model, plan, kernels } = answer;
  if (model !== 1 || !kernels || !plan?.needs) return `${url} is no model for this SDK.`;
  if (need !== undefined) {
    return `The plan of ${name} needs "${need}", which this SDK does not know: update kernelzoo.`;
  }
  return plan.needs.includes("states")
    ? `${name} is a language model; open it by zoo.languageModel().`
    : `${name} is no language model; open it by zoo.model().`;
}

const shapeText = (shape: readonly number[]): string => shape.join("×");

type MisfitPort = Misfit["port"];

const portText = ({ shape = [] }: MisfitPort): string => shapeText(shape);

/** Says what is wrong with the feed of a port, by the kind of the fault. */
const MISFITS: {
  readonly [Kind in keyof MisfitDetails]: (
    port: MisfitPort,
    ...details: MisfitDetails[Kind]
  ) => string;
} = {
  option: ({ name }) =>
    unknownName("model.run", { [name]: true }, ["signal", "into"]) ??
    `${name} is to be ${EXPECTED[name]}.`,
  unknown: ({ name }, known) =>
    `The model has no input ${name}; its inputs are ${known.join(", ")}.`,
  missing: (port) =>
    `Input ${port.name} is missing: give ${portText(port)} entries of ${port.dtype}.`,
  shape: (port, given) =>
    `Input ${port.name} has the shape ${portText(port)}, not ${shapeText(given)}: pad or cut it.`,
  length: (port, given) => {
    const size = productOf(port.shape ?? []);
    const entries = `${size} entries of ${port.dtype} (${portText(port)})`;
    return `Input ${port.name} takes ${entries}, not ${given}: pad or cut it.`;
  },
  type: ({ name }, given) =>
    `Input ${name} takes float32: give a Float32Array, no entries of ${given}.`,
  range: ({ name, dtype, rows }, least, most, i, entry) => {
    const why = rows === undefined ? "" : ", as they choose rows of a table";
    const range = `whole numbers from ${least} to ${most}${why}`;
    return `Input ${name} (${dtype}) takes ${range}; entry ${i} is ${entry}.`;
  },
};

/** Says why the feeds of a run do not fit. */
export const misfitText = <Kind extends keyof MisfitDetails>({
  kind,
  port,
  details,
}: Misfit<Kind>): string => MISFITS[kind](port, ...details);
