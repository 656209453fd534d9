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
