/** Finds the name that a misspelt one was probably meant to be. */

/** Letters that have to be added, left out or changed to make one name of the other. */
function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...left].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...right].entries()) {
      const changed = (row[j] as number) + (letter === other ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row.at(-1) as number;
}

/** The known name that is nearest; undefined where none is near. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const most = Math.ceil(name.length / 3);
  const near = known.map((word) => {
    return [distance(name.toLowerCase(), word.toLowerCase()), word] as const;
  });
  return near.filter(([far]) => far <= most).sort(([a], [b]) => a - b)[0]?.[1];
}

/** A sentence on the first name of `given` that is not known; null where all are. */
export function unknownName(
  where: string,
  given: object | null | undefined,
  known: readonly string[],
): string | null {
  const unknown = Object.keys(given ?? {}).find((name) => !known.includes(name));
  if (unknown === undefined) return null;
  const meant = nearest(unknown, known);
  return `${unknown} is not known to ${where}; ${meant ? `${meant} may be meant` : "leave it out"}.`;
}
