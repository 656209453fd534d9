/** Axes: from values to places, and the round values that are written beside them. Pure. */

export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/** From 0 to a round value at or above `most`; `from` and `to` are places in the picture. */
export function fromZero(most: number, from: number, to: number, about = 4): Scale {
  const step = roundStep((most > 0 ? most : 1) / about);
  const end = step * Math.ceil((most > 0 ? most : 1) / step - 1e-9);
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, i) => i * step);
  return { at: (value) => from + ((to - from) * value) / end, ticks };
}

/** The least of 1, 2 and 5 times a power of ten that is not below `step`. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const digit = [1, 2, 5, 10].find((each) => each * power >= step * (1 - 1e-9)) ?? 10;
  return digit * power;
}
