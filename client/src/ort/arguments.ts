/** Reads the arguments of `create` and `run`, of which onnxruntime-web has several forms each. */
import type { InferenceSession, Tensor } from "onnxruntime-common";

export interface CreateArguments {
  /** An address, or the bytes of the model. */
  readonly source: string | Uint8Array;
  readonly options: InferenceSession.SessionOptions;
}

export interface RunArguments {
  /** The outputs that are wanted, each with the tensor that takes it, or null. */
  readonly fetches: Readonly<Record<string, Tensor | null>>;
  readonly options: InferenceSession.RunOptions;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

function optionsOf(value: unknown): object {
  if (value === undefined) return {};
  if (isObject(value)) return value;
  throw new TypeError("'options' must be an object.");
}

/** Throws TypeError and RangeError. */
export function createArguments(model: unknown, given: readonly unknown[]): CreateArguments {
  if (typeof model === "string" || model instanceof Uint8Array) {
    return { source: model, options: optionsOf(given[0]) };
  }
  const isShared = typeof SharedArrayBuffer === "function" && model instanceof SharedArrayBuffer;
  if (!(model instanceof ArrayBuffer || isShared)) {
    throw new TypeError("The model must be an address, an ArrayBuffer or a Uint8Array.");
  }
  const buffer = model as ArrayBuffer;
  const numbers = given.filter((argument) => typeof argument === "number");
  const [offset = 0, length = buffer.byteLength - offset] = numbers;
  if (!Number.isSafeInteger(offset) || offset < 0 || offset >= buffer.byteLength) {
    throw new RangeError(`'byteOffset' must be from 0 to ${buffer.byteLength - 1}.`);
  }
  if (!Number.isSafeInteger(length) || length <= 0 || offset + length > buffer.byteLength) {
    throw new RangeError(`'byteLength' must be from 1 to ${buffer.byteLength - offset}.`);
  }
  const options = optionsOf(given.filter((argument) => argument !== undefined)[numbers.length]);
  return { source: new Uint8Array(buffer, offset, length), options };
}

/** The outputs by name where an argument names any; null where it holds options. */
function fetchesOf(outputNames: readonly string[], value: unknown): RunArguments["fetches"] | null {
  if (Array.isArray(value)) {
    const known = `outputs: ${outputNames.join(", ")}.`;
    if (value.length === 0) throw new TypeError(`'fetches' is empty; name ${known}`);
    const strange = value.find((name) => !outputNames.includes(name));
    if (strange !== undefined) {
      throw new RangeError(`'fetches' has ${String(strange)}, and not one of the ${known}`);
    }
    return Object.fromEntries(value.map((name: string) => [name, null]));
  }
  if (!isObject(value)) return null;
  const isTensor = (entry: unknown) => entry === null || (isObject(entry) && "dims" in entry);
  const named = Object.entries(value).filter(
    ([name, entry]) => outputNames.includes(name) && isTensor(entry),
  );
  return named.length > 0 ? (Object.fromEntries(named) as Record<string, Tensor | null>) : null;
}

/** Throws TypeError, RangeError, and Error for a feed that is missing. */
export function runArguments(
  session: Pick<InferenceSession, "inputNames" | "outputNames">,
  feeds: unknown,
  [first, second]: readonly unknown[],
): RunArguments {
  const { inputNames, outputNames } = session;
  if (!isObject(feeds) || Array.isArray(feeds)) {
    throw new TypeError("'feeds' must be an object with a tensor for each input.");
  }
  const missing = inputNames.find((name) => feeds[name] === undefined);
  if (missing !== undefined) throw new Error(`input '${missing}' is missing in 'feeds'.`);
  const fetches = fetchesOf(outputNames, first);
  if (first === null) throw new TypeError("'fetches' cannot be null.");
  const options = optionsOf(fetches === null ? first : second);
  const all = Object.fromEntries(outputNames.map((name) => [name, null]));
  return { fetches: fetches ?? all, options };
}
