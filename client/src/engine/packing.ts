/**
 * Packs inputs in the layout that a kernel wants. A page has a tensor row-major; the layout's pack
 * kernel makes the copy that the kernel reads.
 */
import type { ArtifactWire, KernelWire, TensorWire } from "../wire/types.js";
import type { Arena } from "./arena.js";
import { addresses, instantiate, runInSlices } from "./instance.js";
import { elementsOf, planMemory, type Region, type TensorView, tensorBytes } from "./tensors.js";

/** Compiled pack kernels by their hash. */
export type PackModules = ReadonlyMap<string, WebAssembly.Module>;

type Layouts = Pick<KernelWire, "layouts">;

/** The layouts of a kernel, and the pack kernels that pack its inputs. */
export interface Packable {
  readonly kernel: Layouts;
  readonly packs: PackModules;
}

/** Loads the pack kernels that the kernels name, each once. Rejects as `load` does. */
export async function loadPacks(
  kernels: readonly Layouts[],
  load: (pack: ArtifactWire) => Promise<WebAssembly.Module>,
): Promise<PackModules> {
  const packs = kernels.flatMap(({ layouts }) => layouts.map(({ pack }) => pack));
  const bySha = new Map(packs.map((pack) => [pack.sha256, pack] as const));
  const loading = [...bySha].map(async ([sha256, pack]) => [sha256, await load(pack)] as const);
  return new Map(await Promise.all(loading));
}

/** A pack kernel's tensors: as a page has it, and packed. */
export function packTensors(pack: ArtifactWire): { plain: TensorWire; packed: TensorWire } {
  const [plain, packed] = pack.tensors as readonly [TensorWire, TensorWire];
  return { plain, packed };
}

/** The tensors of a kernel as a page has them. */
export function plainTensors({
  tensors,
  layouts,
}: Pick<KernelWire, "layouts" | "tensors">): readonly TensorWire[] {
  return tensors.map((tensor) => {
    const layout = layouts.find((packed) => packed.tensor === tensor.name);
    return layout === undefined ? tensor : packTensors(layout.pack).plain;
  });
}

/**
 * Packs the tensor at address `from` to address `to`. Throws KernelZooError: memory, compile, run.
 */
export function runPack(
  arena: Arena,
  pack: ArtifactWire,
  packs: PackModules,
  from: number,
  to: number,
): void {
  const { scratch_bytes, sha256, range_extent } = pack;
  const plan = planMemory({ tensors: [], scratch_bytes });
  const scratch = arena.allocate(plan.totalBytes);
  try {
    const words = [from, to, ...addresses(pack, plan, scratch.start)];
    const module = packs.get(sha256) as WebAssembly.Module;
    runInSlices(instantiate(module, arena.memory, words, range_extent));
  } finally {
    arena.free(scratch);
  }
}

/**
 * Has `write` fill an input as a page has it, then packs it where the kernel wants that. `base` is
 * where the kernel's tensors start. Throws KernelZooError: memory, compile, run.
 */
export function writeInput(
  arena: Arena,
  { kernel, packs }: Packable,
  { tensor, offset, elements }: Region,
  base: number,
  write: (view: TensorView) => void,
): void {
  const layout = kernel.layouts.find((packed) => packed.tensor === tensor.name);
  if (layout === undefined) {
    write(arena.view(base + offset, tensor, elements));
    return;
  }
  const { plain } = packTensors(layout.pack);
  const block = arena.allocate(tensorBytes(plain));
  try {
    write(arena.view(block.start, plain, elementsOf(plain)));
    runPack(arena, layout.pack, packs, block.start, base + offset);
  } finally {
    arena.free(block);
  }
}
