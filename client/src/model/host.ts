import type { Notebook } from "../device/notebook.js";
import type { LoadRequest } from "../sdk/load.js";
import type { Asker, Source } from "../sdk/manifest.js";

/** A zoo, as its models see it. */
export interface Host
  extends Source,
    Pick<Asker, "hardware">,
    Pick<LoadRequest, "arena" | "backend" | "deviceClass" | "failures" | "gpu" | "threads"> {
  /** The page's GPU, opened where it was not; `gpu` is none for a model in a file. */
  readonly openGpu: () => Promise<LoadRequest["gpu"]>;
  /** The notes of earlier visits to this page. */
  readonly notes: Notebook;
  /** The reason why JavaScript runs in place of WebAssembly; null where WebAssembly may run. */
  readonly forbidden: string | null;
  /** Workers may be handed shared memory. */
  readonly shares: boolean;
  /** Plans with states are asked for, as those of language models are. */
  readonly states?: true;
}
