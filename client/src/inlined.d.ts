/** A worker's bundle as text, made by `inline-worker.js`. */
declare module "*?inlined" {
  const source: string;
  export default source;
}

/** A worker's bundle as text that is put together of texts which several workers share. */
declare module "*?parts" {
  const source: string;
  export default source;
}
