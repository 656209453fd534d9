/**
 * Entry of the worker of a model without WebAssembly, inlined as text behind that of its kernels: its
 * memory is a plain buffer, its kernels are JavaScript.
 */
import { KernelZooError } from "../../engine/error.js";
import { serve } from "../../executor/worker-server.js";
import { unpacking } from "../../weights/unpacker.js";
import { loadOnWasm, type Machine } from "../wasm/executor.js";
import type { Main } from "../wasm/program.js";

/** A kernel of ABI 1 for javascript. */
type MainOf = (memory: ArrayBuffer) => Main;

/** Kernels by the hash of their artifact, which stand before this text in the worker's. */
const scope = globalThis as unknown as { readonly kernels: Readonly<Record<string, MainOf>> };

function bufferOf(bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch (cause) {
    const message = `The browser cannot give ${Math.ceil(bytes / 2 ** 20)} MiB. Close pages.`;
    throw new KernelZooError("memory", message, cause);
  }
}

const machine: Machine = {
  memory(bytes) {
    // The runtime looks at its buffer alone.
    return { buffer: bufferOf(bytes) } as WebAssembly.Memory;
  },
  mains({ buffer }) {
    const factories = Object.entries(scope.kernels);
    return new Map(factories.map(([sha256, make]) => [sha256, make(buffer)] as const));
  },
};

serve((order, ports) => loadOnWasm(order, { ...ports, machine, unpacking }));
