/** Opens the zoo of the host that serves this file. */
import { KernelZoo } from "../client/sdk.js";

export const host = new URL("..", import.meta.url).href.replace(/\/$/, "");

const deviceClass = "0123456789abcdef:r1-0:wasm+simd128";

export const open = (options = {}) =>
  KernelZoo.open(host, { deviceClass, backend: "wasm", ...options });
