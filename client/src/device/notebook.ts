/** Small texts kept between page loads: the probe's result, the hardware, the identity. */
export interface Notebook {
  read(key: string): string | null;
  write(key: string, value: string): void;
}

const PREFIX = "kernelzoo:";

/** Keeps notes for as long as the page lives, starting from `notes`. */
export function memoryNotebook(notes: Readonly<Record<string, string>> = {}): Notebook {
  const kept = new Map(Object.entries(notes));
  return {
    read: (key) => kept.get(key) ?? null,
    write: (key, value) => void kept.set(key, value),
  };
}

/**
 * Keeps notes in localStorage, or another storage; where the browser denies it or it is full, for
 * as long as the page lives.
 */
export function storedNotebook(storage = () => localStorage): Notebook {
  const fallback = memoryNotebook();
  return {
    read(key) {
      try {
        return storage().getItem(PREFIX + key) ?? fallback.read(key);
      } catch {
        return fallback.read(key);
      }
    },
    write(key, value) {
      try {
        storage().setItem(PREFIX + key, value);
      } catch {
        fallback.write(key, value);
      }
    },
  };
}

/** Forgets every note that this browser keeps, but for those named. */
export function forgetNotes(but: readonly string[] = []): void {
  try {
    const kept = new Set(but.map((key) => PREFIX + key));
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    for (const key of keys) if (!kept.has(key)) localStorage.removeItem(key);
  } catch {
    // A browser that denies the storage has kept nothing.
  }
}

/** All notes in localStorage, to hand to a worker, which has none. */
export function storedNotes(): Readonly<Record<string, string>> {
  try {
    const notes = Object.entries(localStorage).filter(([key]) => key.startsWith(PREFIX));
    return Object.fromEntries(notes.map(([key, value]) => [key.slice(PREFIX.length), value]));
  } catch {
    return {};
  }
}
