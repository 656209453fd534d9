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

/** How far apart values may lie before a linear axis presses most of them onto its end. */
const FACTOR = 8;
const DIGITS = [1, 2, 5] as const;

/** From 0 where that shows the values apart, else by factors. Times are above zero. */
export function forTimes(least: number, most: number, from: number, to: number): Scale {
  return least > 0 && most > FACTOR * least
    ? byFactors(least, most, from, to)
    : fromZero(most, from, to);
}

/** The round values at or below `least` and at or above `most` are its ends. */
function byFactors(least: number, most: number, from: number, to: number): Scale {
  const decades = Math.log10(most / least);
  const digits = decades > 2 ? DIGITS.slice(0, 1) : DIGITS;
  const all = Array.from({ length: Math.ceil(decades) + 2 }, (_, i) =>
    digits.map((digit) =>
      Number((digit * 10 ** (Math.floor(Math.log10(least)) + i)).toPrecision(1)),
    ),
  ).flat();
  const first = all.findLastIndex((each) => each <= least);
  const last = all.findIndex((each) => each >= most);
  const ticks = all.slice(first, last + 1);
  const [low, high] = [Math.log(ticks[0] ?? least), Math.log(ticks.at(-1) ?? most)];
  return { at: (value) => from + ((to - from) * (Math.log(value) - low)) / (high - low), ticks };
}

/** The least of 1, 2 and 5 times a power of ten that is not below `step`. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const digit = [1, 2, 5, 10].find((each) => each * power >= step * (1 - 1e-9)) ?? 10;
  return digit * power;
}
