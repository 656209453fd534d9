/** A worker's bundle as text, made by `inline-worker.js`. */
declare module "*?inlined" {
  const source: string;
  export default source;
}

/** The same, put together of texts that several workers share. */
declare module "*?parts" {
  const source: string;
  export default source;
}
