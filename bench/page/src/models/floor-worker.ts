/** A worker that fetches a file, and writes and reads a file of the device at full speed. */

export type FloorTask =
  | { readonly type: "fetch"; readonly url: string }
  | { readonly type: "read" | "write"; readonly bytes: number };

/** The handle of a file, which TypeScript's DOM library describes in workers alone. */
interface SyncFile {
  read(into: Uint8Array, options: { at: number }): number;
  write(from: Uint8Array, options: { at: number }): number;
  close(): void;
}

type Handle = FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncFile> };

const scope = globalThis as unknown as {
  onmessage: (event: { readonly data: FloorTask }) => void;
  postMessage(message: null): void;
};
const PIECE_BYTES = 1 << 20;

async function done(task: FloorTask): Promise<void> {
  if (task.type === "fetch") {
    await (await fetch(task.url)).arrayBuffer();
    return;
  }
  const root = await navigator.storage.getDirectory();
  const handle = (await root.getFileHandle("floor", { create: true })) as Handle;
  const file = await handle.createSyncAccessHandle();
  const piece = new Uint8Array(PIECE_BYTES);
  for (let at = 0; at < task.bytes; at += PIECE_BYTES) file[task.type](piece, { at });
  file.close();
}

scope.onmessage = ({ data }) => void done(data).then(() => scope.postMessage(null));
