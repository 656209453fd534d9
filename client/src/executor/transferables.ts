/** Which memory of arrays moves with a message, and which both sides see. */

type Entries = Float32Array | Float64Array | Int32Array;

/** Whether workers read an array where it lies. */
export const isShared = ({ buffer }: Entries): boolean => !(buffer instanceof ArrayBuffer);

/** What a message with these arrays transfers. */
export const buffersOf = (arrays: readonly Entries[]): ArrayBuffer[] =>
  arrays.filter((each) => !isShared(each)).map(({ buffer }) => buffer as ArrayBuffer);
