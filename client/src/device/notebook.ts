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

/** Keeps notes in localStorage; where the browser denies it, for as long as the page lives. */
export function storedNotebook(): Notebook {
  const fallback = memoryNotebook();
  return {
    read(key) {
      try {
        return localStorage.getItem(PREFIX + key);
      } catch {
        return fallback.read(key);
      }
    },
    write(key, value) {
      try {
        localStorage.setItem(PREFIX + key, value);
      } catch {
        fallback.write(key, value);
      }
    },
  };
}

/** Forgets every note that this browser keeps, the identity among them. */
export function forgetNotes(): void {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    for (const key of keys) localStorage.removeItem(key);
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
