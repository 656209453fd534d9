/** Numbers as people read them. */

const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en");

export const rate = (gflops: number | null): string =>
  gflops === null ? "–" : `${decimal.format(gflops)} GFLOP/s`;

export const integer = (n: number): string => whole.format(n);

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${whole.format(n)} ${n === 1 ? one : many}`;

/** `0.77` as `1.30× the reference`. */
export const speedup = (relativeTime: number): string => `${(1 / relativeTime).toFixed(2)}×`;

export const milliseconds = (ms: number): string =>
  ms < 1000 ? `${whole.format(Math.round(ms))} ms` : `${decimal.format(ms / 1000)} s`;

/** A time with three digits, in the unit that suits it. */
export function duration(ns: number | null): string {
  if (ns === null) return "–";
  if (ns < 1e3) return `${digits.format(ns)} ns`;
  if (ns < 1e6) return `${digits.format(ns / 1e3)} µs`;
  return ns < 1e9 ? `${digits.format(ns / 1e6)} ms` : `${digits.format(ns / 1e9)} s`;
}

export const short = (id: string): string => id.slice(0, 8);

export const kilobytes = (bytes: number): string =>
  bytes < 1000 ? `${whole.format(bytes)} B` : `${decimal.format(bytes / 1000)} kB`;

/** `42000` as `42 s`, `210000` as `3.5 min`. */
export const span = (ms: number): string => {
  if (ms < 60_000) return `${whole.format(Math.round(ms / 1000))} s`;
  const minutes = ms / 60_000;
  return `${Number.isInteger(minutes) ? whole.format(minutes) : decimal.format(minutes)} min`;
};

/** `3 min ago`; a date once it is older than a day. */
export function ago(iso: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h ago` : iso.slice(0, 10);
}
