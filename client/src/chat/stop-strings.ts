/** Ends a text before the first of several strings, which pieces of the text may cut anywhere. */

export class StopStrings {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  /** Takes a piece, and returns what can be told of the text and whether it has ended. */
  push(piece: string): { readonly text: string; readonly ended: boolean } {
    this.#held += piece;
    const places = this.#stops.map((stop) => this.#held.indexOf(stop)).filter((at) => at >= 0);
    const ended = places.length > 0;
    const until = ended ? Math.min(...places) : this.#certain();
    const text = this.#held.slice(0, until);
    this.#held = ended ? "" : this.#held.slice(until);
    return { text, ended };
  }

  /** Returns what was held back as the beginning of a string that did not come. */
  end(): string {
    return this.#held;
  }

  /** Finds where the longest end of the text begins that a string to stop at may begin with. */
  #certain(): number {
    const longest = Math.max(0, ...this.#stops.map((stop) => stop.length - 1));
    let start = Math.max(0, this.#held.length - longest);
    while (start < this.#held.length) {
      const end = this.#held.slice(start);
      if (this.#stops.some((stop) => stop.startsWith(end))) break;
      start += 1;
    }
    return start;
  }
}
