/**
 * Language models that the device keeps, by keys of the page: what the zoo answered for each context, with
 * kernels and weights, in the Cache API. Loaded by pages that use it.
 */
import { kernelFiles } from "../backend/wasm/kernel-files.js";
import { sentence } from "../engine/error.js";
import type { Answered } from "../model/request.js";
import { LANGUAGE_CACHES } from "../weights/cached-model.js";
import { explained, storageError } from "../weights/storage-error.js";
import { weightFiles } from "../weights/stream.js";
import { addressOf } from "../wire/model-answer.js";
import type { ServedKernel } from "../wire/types.js";

const VERSION = 1;

/** The index that is kept beside the files. */
interface KeptIndex {
  readonly version: number;
  /**
   * The answers by the tokens that they have room for; `""` for the one plan of a model without
   * contexts.
   */
  readonly answers: Readonly<Record<string, Pick<Answered, "answer" | "origin" | "reason">>>;
}

const indexAddress = (): URL => new URL("/kernelzoo-language.json", globalThis.location.href);

const nameOf = (context: number | undefined): string => `${context ?? ""}`;

/** The files that a model of an answer fetches by each of its addresses: weights may be several. */
function filesOf({ answer, origin }: Answered): ReadonlyMap<string, readonly string[]> {
  const { kernels, plan, weights } = answer;
  const served = plan.kernels.map((key) => (kernels[key] as ServedKernel).kernel);
  const urls = [weights, answer.golden, ...kernelFiles(answer, served)];
  return new Map(
    urls.map(({ url }) => {
      const address = addressOf(url, origin).href;
      return [address, weightFiles(address, plan.chunks.length)[0]];
    }),
  );
}

/** A model of the device. Owns the addresses of its files until it is disposed. */
export class KeptLanguage {
  readonly #cacheName: string;
  readonly #index: KeptIndex | null;
  /** Addresses of blobs of kept files, by those that answers have. */
  readonly #blobs = new Map<string, string>();

  private constructor(cacheName: string, index: KeptIndex | null) {
    this.#cacheName = cacheName;
    this.#index = index;
  }

  /** Opens what is kept under a key, which may be nothing yet. Throws KernelZooError (storage). */
  static open(key: string): Promise<KeptLanguage> {
    return explained(async () => {
      const cacheName = LANGUAGE_CACHES + key;
      const response = await caches.match(indexAddress(), { cacheName });
      const index = JSON.parse((await response?.text()) ?? "null") as KeptIndex | null;
      return new KeptLanguage(cacheName, index?.version === VERSION ? index : null);
    });
  }

  /** The contexts that are kept, the fewest tokens first. */
  get contexts(): readonly number[] {
    const names = Object.keys(this.#index?.answers ?? {}).filter((name) => name !== "");
    return names.map(Number).sort((a, b) => a - b);
  }

  /** Returns the answer that is kept for a context; null where none is. */
  async planned(context: number | undefined): Promise<Answered | null> {
    const answered = this.#index?.answers[nameOf(context)];
    return answered === undefined ? null : this.fromDevice(answered);
  }

  /** Returns the answer with the addresses of files that are kept, where they are. */
  async fromDevice(answered: Answered): Promise<Answered> {
    const { answer, origin } = answered;
    await Promise.all(
      [...filesOf(answered)].map(async ([address, files]) => {
        if (this.#blobs.has(address)) return;
        const parts = await Promise.all(files.map((file) => this.#kept(file)));
        const [first, ...others] = parts;
        // Of two answers that were asked for at once, one has the address.
        if (!first || others.includes(undefined) || this.#blobs.has(address)) return;
        // The type of a single one says whether it is a module, which is compiled as it is read.
        const blob = others.length === 0 ? first : new Blob(parts as Blob[]);
        this.#blobs.set(address, URL.createObjectURL(blob));
      }),
    );
    const here = (name: string, value: unknown): unknown =>
      name === "url" && typeof value === "string"
        ? (this.#blobs.get(addressOf(value, origin).href) ?? value)
        : value;
    return { ...answered, answer: JSON.parse(JSON.stringify(answer), here) };
  }

  /** Keeps these answers with their files, and nothing else. Rejects with KernelZooError (storage). */
  async save(answers: ReadonlyMap<number | undefined, Answered>): Promise<void> {
    try {
      const cache = await caches.open(this.#cacheName);
      const files = [...answers.values()].flatMap((answered) => [...filesOf(answered).values()]);
      const kept = new Set(files.flat());
      for (const address of kept) {
        if ((await cache.match(address)) === undefined) await cache.add(address);
      }
      const entries = [...answers].map(([context, { answer, origin, reason }]) => {
        return [nameOf(context), { answer, origin, reason: reason ?? null }] as const;
      });
      const index: KeptIndex = { version: VERSION, answers: Object.fromEntries(entries) };
      await cache.put(indexAddress(), new Response(JSON.stringify(index)));
      kept.add(indexAddress().href);
      for (const { url } of await cache.keys()) {
        if (!kept.has(url)) await cache.delete(url);
      }
    } catch (cause) {
      throw storageError(`The device does not keep the model: ${sentence(cause)}`, cause);
    }
  }

  /** Lets go of the files of answers; models that were opened with them are to have ended. */
  dispose(): void {
    for (const blob of this.#blobs.values()) URL.revokeObjectURL(blob);
    this.#blobs.clear();
  }

  async #kept(file: string): Promise<Blob | undefined> {
    return (await caches.match(file, { cacheName: this.#cacheName }))?.blob();
  }
}
