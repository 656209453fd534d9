/** Numbers as people read them. */

const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en");

export const rate = (gflops: number | null): string =>
  gflops === null ? "–" : `${decimal.format(gflops)} GFLOP/s`;

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${whole.format(n)} ${n === 1 ? one : many}`;

/** `0.77` as `1.30× the reference`. */
export const speedup = (relativeTime: number): string => `${(1 / relativeTime).toFixed(2)}×`;

export const milliseconds = (ms: number): string =>
  ms < 1000 ? `${whole.format(Math.round(ms))} ms` : `${decimal.format(ms / 1000)} s`;

export const short = (id: string): string => id.slice(0, 8);

export const kilobytes = (bytes: number): string =>
  bytes < 1000 ? `${whole.format(bytes)} B` : `${decimal.format(bytes / 1000)} kB`;

/** `42000` as `42 s`, `210000` as `3.5 min`. */
export const duration = (ms: number): string => {
  if (ms < 60_000) return `${whole.format(Math.round(ms / 1000))} s`;
  const minutes = ms / 60_000;
  return `${Number.isInteger(minutes) ? whole.format(minutes) : decimal.format(minutes)} min`;
};
