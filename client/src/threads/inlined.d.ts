/** A worker's bundle as text, made by `inline-worker.js`. */
declare module "*?inlined" {
  const source: string;
  export default source;
}
