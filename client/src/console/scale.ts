/** Axes: from values to places, and the round values that are written beside them. Pure. */

export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/**
 * From 0 to `most`, or with `round` to the round value at or above it. `from` and `to` are places in
 * the picture, `about` says how many ticks there are.
 */
export function fromZero(
  most: number,
  from: number,
  to: number,
  { about = 4, round = true } = {},
): Scale {
  const last = most > 0 ? most : 1;
  const step = roundStep(last / about);
  const steps = round ? Math.ceil(last / step - 1e-9) : Math.floor(last / step + 1e-9);
  const end = round ? step * steps : last;
  const ticks = Array.from({ length: steps + 1 }, (_, i) => Number((i * step).toPrecision(12)));
  return { at: (value) => from + ((to - from) * value) / end, ticks };
}

/** The least of 1, 2 and 5 times a power of ten that is not below `step`. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const digit = [1, 2, 5, 10].find((each) => each * power >= step * (1 - 1e-9)) ?? 10;
  return digit * power;
}
