/** Adjusts logits as the kernels of `../webgpu/adjuster.ts` do. */
import type { KnownToken, Sampling } from "../decode-order.js";

/**
 * Keeps what is known of the tokens of one text. What the text has generated is kept by its places,
 * so that a token that is computed again counts once.
 */
export class Adjustment {
  readonly #known: ReadonlyMap<number, KnownToken>;
  readonly #generated: number[] = [];
  /** The place of the first token that is generated. */
  readonly #first: number;

  constructor(known: readonly KnownToken[], first: number) {
    this.#known = new Map(known.map((entry) => [entry.token, entry]));
    this.#first = first;
  }

  /** Changes the logits of the token at `place`, behind which nothing is generated. */
  adjust(logits: Float32Array, place: number, sampling: Sampling): void {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
    this.#generated.length = place - this.#first;
    const occurred = new Map<number, number>();
    for (const { token, occurrences } of this.#known.values()) occurred.set(token, occurrences);
    for (const token of this.#generated) {
      occurred.set(token, Math.max(1, occurred.get(token) ?? 0) + 1);
    }
    for (const [token, count] of occurred) {
      let logit = logits[token] as number;
      if (count > 0) logit = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
      if (count > 1) logit -= frequencyPenalty * (count - 1) + presencePenalty;
      logits[token] = logit + (this.#known.get(token)?.bias ?? 0);
    }
  }

  /** Notes the token that was chosen for `place`. */
  note(token: number, place: number): void {
    this.#generated[place - this.#first] = token;
  }
}
