/** A gate that holds work between two pieces of it. */
export interface Gate {
  readonly isOpen: boolean;
  /** Resolves at once while open, else when the gate opens again. */
  pass(): Promise<void>;
  open(): void;
  close(): void;
}

export function gate(): Gate {
  let opened = Promise.resolve();
  let release: (() => void) | null = null;
  return {
    get isOpen() {
      return release === null;
    },
    pass: () => opened,
    close() {
      if (release !== null) return;
      opened = new Promise((resolve) => {
        release = resolve;
      });
    },
    open() {
      release?.();
      release = null;
    },
  };
}
