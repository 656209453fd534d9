/** A worker's bundle as text, made by `inline-worker.js`. */
declare module "*?inlined" {
  const source: string;
  export default source;
}

/** A copy of that module for its importer, made by `inline-worker.js`. */
declare module "*/script-url.js?own" {
  export function scriptUrl(url: string): string;
}
