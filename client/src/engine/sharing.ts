/**
 * Tells whether this page, or this worker, may hand shared memory to workers. `crossOriginIsolated` is
 * not enough: WebKitGTK isolates pages without letting them share memory (2.50.6).
 */
let shares: boolean | undefined;

export function canShare(): boolean {
  shares ??= globalThis.crossOriginIsolated === true && isPosted();
  return shares;
}

/** Posts the smallest shared memory to nobody. */
function isPosted(): boolean {
  const { port1 } = new MessageChannel();
  try {
    port1.postMessage(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }));
    return typeof SharedArrayBuffer === "function";
  } catch {
    return false;
  } finally {
    port1.close();
  }
}
