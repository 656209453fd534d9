import type { Arena, Block } from "../engine/arena.js";
import { type MemoryPlan, planMemory } from "../engine/plan.js";
import type { KernelWire } from "../wire/types.js";

type Views = Readonly<Record<string, Float32Array>>;

/** A kernel's tensors and scratch in the memory of its zoo, as views by name. */
export class Tensors {
  readonly plan: MemoryPlan;
  readonly block: Block;
  readonly inputs: Views;
  readonly output: Float32Array;
  readonly #arena: Arena;

  /** Throws KernelZooError (memory). */
  constructor(arena: Arena, kernel: Pick<KernelWire, "tensors" | "scratch_bytes">) {
    this.#arena = arena;
    this.plan = planMemory(kernel);
    this.block = arena.allocate(this.plan.totalBytes);
    const views = this.plan.regions.map(({ tensor, offset, elements }) => {
      return [tensor, arena.floats(this.block.start + offset, elements)] as const;
    });
    const inputs = views.filter(([tensor]) => tensor.role === "input");
    this.inputs = Object.fromEntries(inputs.map(([tensor, view]) => [tensor.name, view]));
    this.output = views.find(([tensor]) => tensor.role === "output")?.[1] ?? new Float32Array();
  }

  free(): void {
    this.#arena.free(this.block);
  }
}
