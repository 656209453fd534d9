/** The browser's side of the WebGPU benchmark. */
import { run } from "./webgpu/run.js";

Object.assign(globalThis, { kernelzooGpuBench: { run } });
