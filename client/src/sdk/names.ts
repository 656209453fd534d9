import type { TensorView } from "../engine/tensors.js";
import type {
  EpilogueInputs,
  KeyDType,
  OperatorExtents,
  OperatorInputs,
  WithConstant,
  WithEpilogue,
} from "../wire/operators.js";

/** Row-major views of inputs, by name. */
export type InputViews = Readonly<Record<string, TensorView>>;

type OfOperator<Name> = Name extends keyof OperatorInputs
  ? OperatorInputs[Name]
  : Record<string, Float32Array>;

type OfEpilogue<Parts> = Parts extends `${infer Part}+${infer Rest}`
  ? OfEpilogue<Part> & OfEpilogue<Rest>
  : Parts extends keyof EpilogueInputs
    ? EpilogueInputs[Parts]
    : unknown;

/** Inputs of a workload key; of any name where the key is no literal. */
export type InputsOf<Key extends string> = Key extends `program:${string}`
  ? InputViews
  : Key extends `${infer Name}:${string}`
    ? Name extends `${infer Operator}+${infer Parts}`
      ? OfOperator<Operator> & OfEpilogue<Parts>
      : OfOperator<Name>
    : InputViews;

type EpilogueFault<Parts> = Parts extends `${infer Part}+${infer Rest}`
  ? EpilogueFault<Part> | EpilogueFault<Rest>
  : string extends Parts
    ? never
    : Parts extends keyof EpilogueInputs
      ? never
      : `no epilogue is called ${Parts & string}`;

type OperatorFault<Name> = string extends Name
  ? never
  : Name extends `${infer Operator}+${infer Parts}`
    ? Operator extends WithEpilogue
      ? EpilogueFault<Parts>
      : OperatorFault<Operator> | `${Operator} takes no epilogue`
    : Name extends keyof OperatorInputs
      ? never
      : `no operator is called ${Name & string}`;

type ExtentsFault<Name, Extents> = Name extends `${infer Operator}+${string}`
  ? ExtentsFault<Operator, Extents>
  : Name extends keyof OperatorExtents
    ? Extents extends OperatorExtents[Name]
      ? never
      : Extents extends `${OperatorExtents[Name]}:constant=b`
        ? Name extends WithConstant
          ? never
          : `${Name} gains nothing from constant weights`
        : string extends Extents
          ? never
          : `the extents of ${Name} are ${OperatorExtents[Name]}`
    : never;

type KeyFault<Key> = Key extends `program:${string}`
  ? never
  : Key extends `${infer Name}:${infer DType}:${infer Extents}`
    ?
        | OperatorFault<Name>
        | (string extends DType
            ? never
            : DType extends KeyDType
              ? never
              : `no dtype is called ${DType}`)
        | ExtentsFault<Name, Extents>
    : "a key is operator:dtype:extents, as in matmul:f32:m384k768n768";

/**
 * A workload key that is written out is checked when the page is compiled: one that names no operator
 * is not assignable to a sentence that says so. Variables of the type `string` are taken as they are,
 * and checked by the zoo.
 */
export type WorkloadKey<Key extends string> = string extends Key
  ? Key
  : [KeyFault<Key>] extends [never]
    ? Key
    : KeyFault<Key>;

const CONSTANT = ":constant=";
/** Inputs that kernels gain from when they stay the same. */
const WEIGHTS = "b";

/** The inputs that a key says are constant. */
export function constantsOf(key: string): readonly string[] {
  return key.split(CONSTANT)[1]?.split("+") ?? [];
}

/** The key to prefer where a page promises not to change the inputs `constant`. */
export function constantKey(key: string, constant: readonly string[]): string {
  return constant.includes(WEIGHTS) ? `${key}${CONSTANT}${WEIGHTS}` : key;
}
