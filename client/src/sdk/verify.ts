/** Outputs on seeded inputs, to compare a kernel with the default one. */
import type { Arena } from "../engine/arena.js";
import type { LoadedKernel } from "../engine/loaded.js";
import { zerosOf } from "../engine/plan.js";
import { fillSeeded } from "../engine/seeded.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire } from "../wire/types.js";
import { GpuKernel } from "./gpu-kernel.js";
import { Tensors } from "./tensors.js";
import { WasmKernel } from "./wasm-kernel.js";

const VERIFICATION_SEED = 1;

/** In memory of its own. Throws KernelZooError: memory, compile, run. */
export function wasmOutput(arena: Arena, made: LoadedKernel): Float32Array {
  const tensors = new Tensors(arena, made);
  try {
    for (const [i, region] of tensors.plan.regions.slice(0, -1).entries()) {
      tensors.write(region, (view) => fillSeeded(view, VERIFICATION_SEED, i, region.tensor));
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
      const values = zerosOf(tensor);
      if (tensor.role === "input") fillSeeded(values, VERIFICATION_SEED, i, tensor);
      else values.fill(Number.NaN);
      kernel.write(tensor.name, values);
    }
    await kernel.run();
    return await kernel.read();
  } finally {
    kernel.dispose();
  }
}
