/** Inputs on their way from the page to the GPU. */
import type { Stored } from "../../executor/golden-tensors.js";

/** Smaller inputs are there as soon without a buffer of their own. */
const LARGE_BYTES = 1 << 18;
/** Runs under way keep a mapped buffer each, in the page's memory and in the browser's GPU process. */
const MOST_BYTES = 1 << 26;

/** Staging buffers that are mapped, by the numbers of the inputs that they are for. */
type Mapped = ReadonlyMap<number, GPUBuffer>;

/**
 * Writes inputs. Large ones go through buffers that are mapped before a run wants them: an input of
 * 0.96 MB is handed over in 0.1 ms, by `writeBuffer` in 0.25 (Chromium on Linux).
 */
export class Uploads {
  readonly #device: GPUDevice;
  readonly #inputs: readonly GPUBuffer[];
  readonly #mapped: Mapped[] = [];
  #left: number;

  /** `most` runs may be under way at once. */
  constructor(device: GPUDevice, inputs: readonly GPUBuffer[], most: number) {
    this.#device = device;
    this.#inputs = inputs;
    this.#left = most;
  }

  write(feeds: readonly Stored[]): void {
    const { queue } = this.#device;
    const mapped = this.#mapped.shift();
    const encoder = this.#device.createCommandEncoder();
    for (const [i, feed] of feeds.entries()) {
      const input = this.#inputs[i] as GPUBuffer;
      const staging = mapped?.get(i);
      if (staging === undefined) {
        queue.writeBuffer(input, 0, feed);
        continue;
      }
      const { buffer, byteOffset, byteLength } = feed;
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      new Uint8Array(staging.getMappedRange()).set(bytes);
      staging.unmap();
      encoder.copyBufferToBuffer(staging, 0, input, 0, byteLength);
    }
    if (mapped !== undefined) {
      queue.submit([encoder.finish()]);
      void this.#mapAgain(mapped);
    } else if (this.#left > 0) {
      this.#left -= 1;
      void this.#add(feeds.map(({ byteLength }) => byteLength));
    }
  }

  /** Makes staging for a later run, once this one is submitted. A model that runs once has none. */
  async #add(sizes: readonly number[]): Promise<void> {
    const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
    const large = [...sizes.entries()].filter(
      ([, size]) => size >= LARGE_BYTES && size <= MOST_BYTES,
    );
    if (large.length === 0) return;
    await null;
    const buffers = large.map(([i, size]) => {
      return [i, this.#device.createBuffer({ size, usage, mappedAtCreation: true })] as const;
    });
    this.#mapped.push(new Map(buffers));
  }

  async #mapAgain(mapped: Mapped): Promise<void> {
    try {
      await Promise.all([...mapped.values()].map((buffer) => buffer.mapAsync(GPUMapMode.WRITE)));
      this.#mapped.push(mapped);
    } catch {
      // The device is lost, which the run hears of.
    }
  }
}
