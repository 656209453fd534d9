/** Which memory of arrays moves with a message, and which both sides see. */

type AnyEntries = Float32Array | Float64Array | Int32Array;

/** Whether workers read an array where it lies. */
export const isShared = ({ buffer }: AnyEntries): boolean => !(buffer instanceof ArrayBuffer);

/** What a message with these arrays transfers. */
export const buffersOf = (arrays: readonly AnyEntries[]): ArrayBuffer[] =>
  arrays.filter((each) => !isShared(each)).map(({ buffer }) => buffer as ArrayBuffer);
