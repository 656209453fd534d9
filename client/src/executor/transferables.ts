/** Tells arrays whose memory moves with a message from those that both sides see. */

type AnyEntries = Float32Array | Float64Array | Int32Array;

/** Returns whether workers read an array where it lies, in shared memory. */
export const isShared = ({ buffer }: AnyEntries): boolean => !(buffer instanceof ArrayBuffer);

/** Returns the buffers that a message with these arrays transfers. */
export const buffersOf = (arrays: readonly AnyEntries[]): ArrayBuffer[] =>
  arrays.filter((array) => !isShared(array)).map(({ buffer }) => buffer as ArrayBuffer);
