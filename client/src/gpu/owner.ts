import { type OpenDevice, openDevice } from "./device.js";

/** Owns one device at a time; the one after a loss is another, with nothing on it. */
export class DeviceOwner {
  readonly #open: () => Promise<OpenDevice>;
  #current: Promise<OpenDevice> | null = null;

  constructor(open: () => Promise<OpenDevice> = openDevice) {
    this.#open = open;
  }

  /** The device, opened now where there is none or it was lost. Rejects as `openDevice`. */
  async device(): Promise<OpenDevice> {
    this.#current ??= this.#opening();
    const held = this.#current;
    if ((await held).loss === null) return held;
    // Another caller may have replaced it while this one waited.
    if (this.#current === held) this.#current = this.#opening();
    return this.#current;
  }

  /** Gives up the device and all that was made with it. */
  dispose(): void {
    this.#current?.then(
      (open) => open.dispose(),
      () => undefined,
    );
    this.#current = null;
  }

  #opening(): Promise<OpenDevice> {
    const opening = this.#open();
    opening.catch(() => {
      if (this.#current === opening) this.#current = null;
    });
    return opening;
  }
}
