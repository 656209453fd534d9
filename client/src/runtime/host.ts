/**
 * What the runtime takes from the SDK instead of importing it: its own file would hold these modules
 * a second time, and an error of a second class is no KernelZooError to a page.
 */
import type { Notebook, storedNotes } from "../device/notebook.js";
import type { KernelZooError } from "../engine/error.js";
import type { postReport } from "../gateway/failures.js";
import type { chooseOffer } from "../sdk/address.js";
import type { giveUpGpu } from "../sdk/backend.js";
import type { LoadRequest, loadKernel } from "../sdk/load.js";
import type { Asker, fresh, hashOf, Source } from "../sdk/manifest.js";
import type { latest, openManifest, refuseAged } from "../sdk/signature.js";

export interface Tools {
  readonly KernelZooError: typeof KernelZooError;
  readonly chooseOffer: typeof chooseOffer;
  readonly fresh: typeof fresh;
  readonly giveUpGpu: typeof giveUpGpu;
  readonly hashOf: typeof hashOf;
  readonly latest: typeof latest;
  readonly loadKernel: typeof loadKernel;
  readonly notes: Notebook;
  readonly openManifest: typeof openManifest;
  readonly postReport: typeof postReport;
  readonly refuseAged: typeof refuseAged;
  readonly storedNotes: typeof storedNotes;
}

/** A zoo, as its models see it. */
export interface Host
  extends Source,
    Pick<Asker, "hardware">,
    Pick<LoadRequest, "arena" | "backend" | "deviceClass" | "failures" | "gpu" | "threads"> {
  /** The page's GPU, opened where it was not; `gpu` is none for a model in a file. */
  readonly openGpu: () => Promise<LoadRequest["gpu"]>;
  readonly tools: Tools;
  /** Why JavaScript runs in place of WebAssembly; null where WebAssembly may run. */
  readonly forbidden: string | null;
  /** Workers may be handed shared memory. */
  readonly shares: boolean;
  /** The format of plans that is asked for; 1 unless told. */
  readonly format?: 1 | 2;
}
