import { download } from "../engine/artifact.js";
import { addressOf } from "../runtime/answer.js";
import type { LoadOrder } from "../runtime/messages.js";
import { refuseChanged } from "../runtime/stream.js";

/** Files of golden inputs and outputs up to this are kept in memory. */
const SMALL_BYTES = 1 << 24;

/** The golden inputs and outputs of a model, fetched when they are needed. */
export class GoldenFile {
  readonly #order: LoadOrder;
  #kept: ArrayBuffer | null = null;

  constructor(order: LoadOrder) {
    this.#order = order;
  }

  /** Throws KernelZooError: network, artifact. */
  async bytes(): Promise<ArrayBuffer> {
    if (this.#kept !== null) return this.#kept;
    const { answer, origin } = this.#order;
    const url = addressOf(answer.golden.url, origin);
    const bytes = await download(url, (response) => response.arrayBuffer());
    await refuseChanged(new Uint8Array(bytes), answer.plan.golden.sha256, url);
    if (bytes.byteLength <= SMALL_BYTES) this.#kept = bytes;
    return bytes;
  }
}
