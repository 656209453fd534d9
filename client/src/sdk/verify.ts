/** Outputs on seeded inputs, to compare a kernel with the default one. */
import type { Arena } from "../engine/arena.js";
import { elementsOf } from "../engine/plan.js";
import { fillSeeded } from "../engine/seeded.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire } from "../wire/types.js";
import { GpuKernel } from "./gpu-kernel.js";
import { Tensors } from "./tensors.js";
import { WasmKernel, type WasmModule } from "./wasm-kernel.js";

const VERIFICATION_SEED = 1;

/** In memory of its own. Throws KernelZooError: memory, compile, run. */
export function wasmOutput(arena: Arena, made: WasmModule): Float32Array {
  const tensors = new Tensors(arena, made.used);
  try {
    for (const [i, view] of Object.values(tensors.inputs).entries()) {
      fillSeeded(view, VERIFICATION_SEED, i);
    }
    tensors.output.fill(Number.NaN);
    new WasmKernel(made, arena, tensors).run();
    return tensors.output.slice();
  } finally {
    tensors.free();
  }
}

/** In buffers of its own. Rejects with KernelZooError. */
export async function gpuOutput(program: Program, used: KernelWire): Promise<Float32Array> {
  const kernel = await GpuKernel.make(program);
  try {
    for (const [i, tensor] of used.tensors.entries()) {
      const values = new Float32Array(elementsOf(tensor)).fill(Number.NaN);
      if (tensor.role === "input") fillSeeded(values, VERIFICATION_SEED, i);
      kernel.write(tensor.name, values);
    }
    await kernel.run();
    return await kernel.read();
  } finally {
    kernel.dispose();
  }
}
