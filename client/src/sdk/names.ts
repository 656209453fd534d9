/** Names of an operator's inputs, so that `kernel.inputs.a` is known to be there. */
interface Operators {
  matmul: "a" | "b";
  batch_matmul: "a" | "b";
}

/** Input names of a workload key; any text for operators that this version does not know. */
export type InputNames<Key extends string> = Key extends `${infer Operator}:${string}`
  ? Operator extends keyof Operators
    ? Operators[Operator]
    : string
  : string;

const EXTENT = /[a-z](\d+)/g;

/** The command that registers a workload, as in `kernelzoo tune matmul 384x768x768`. */
export function registerCommand(key: string): string {
  const [operator = key, , extents = ""] = key.split(":");
  const sizes = [...extents.matchAll(EXTENT)].map(([, size]) => size);
  return `kernelzoo tune ${operator} ${sizes.join("x")}`.trimEnd();
}
