/** The worker that writes weights stands still with the second piece. */
{
  const stall = `{
    if (globalThis.FileSystemSyncAccessHandle) {
      const write = FileSystemSyncAccessHandle.prototype.write;
      let written = 0;
      FileSystemSyncAccessHandle.prototype.write = function (...given) {
        written += given[0].length === 1 << 20;
        if (written === 2) {
          new BroadcastChannel("stalled").postMessage(null);
          const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
          Atomics.wait(new Int32Array(memory.buffer), 0, 0);
        }
        return write.apply(this, given);
      };
    }
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([stall, ...parts], options);
    }
  };
}
