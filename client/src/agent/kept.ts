import { Lru } from "./lru.js";

/** Makes what a key stands for once, while it stays among the last used. */
export type Keep<Value> = (key: string, make: () => Promise<Value>) => Promise<Value>;

/** Keeps the last `most`; failures are not kept. */
export function keptPromises<Value>(most: number): Keep<Value> {
  const kept = new Lru<string, Promise<Value>>(most);
  return (key, make) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const making = make();
    kept.set(key, making);
    making.catch(() => kept.delete(key));
    return making;
  };
}
