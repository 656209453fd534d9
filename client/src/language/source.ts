/** Takes what the encoder of a model reads from a page, and says what is wrong with it. */
import type { DecoderWire, EncoderWire, PlanWire } from "../wire/model-answer.js";
import type { SourceFeed } from "./decode-order.js";

/** The encoder of a plan, and the shape of what it reads; null where the plan has none. */
export function encoderOf(
  plan: PlanWire,
): { readonly encoder: EncoderWire; readonly shape: readonly number[] } | null {
  const { encoder } = plan.decoder as DecoderWire;
  if (encoder === undefined) return null;
  const port = plan.inputs.find(({ tensor }) => tensor === encoder.source);
  return { encoder, shape: port?.shape ?? [] };
}

/** Says what is wrong with an input; null for one that the encoder takes. */
export function inputFault(plan: PlanWire, name: string, input: ArrayLike<number>): string | null {
  const reader = encoderOf(plan);
  if (reader === null) {
    return `${name} has no encoder; give it the tokens of the text alone, as generate(tokens).`;
  }
  const { encoder, shape } = reader;
  const { length, vocabulary } = encoder;
  if (!(input?.length >= 0)) return "input is to be an array of numbers.";
  if (vocabulary > 0) {
    if (input.length === 0) return "The input is empty; give the encoder one token at least.";
    if (input.length > length) {
      return (
        `The input has ${input.length} tokens; the encoder of ${name} has room for ${length}. ` +
        "Give it a part of the text at a time."
      );
    }
    const isToken = (id: number): boolean => Number.isInteger(id) && id >= 0 && id < vocabulary;
    const at = Array.from(input).findIndex((id) => !isToken(id));
    if (at === -1) return null;
    return `${input[at]} is no token of ${name}'s encoder; they are 0 to ${vocabulary - 1}.`;
  }
  const [bands = 0, frames = 0] = shape;
  if (input.length !== bands * frames) {
    return (
      `The input has ${input.length} numbers; the encoder of ${name} takes a spectrogram of ` +
      `${bands} bands of ${frames} frames each, which are ${bands * frames}. Fill what is shorter ` +
      "with the spectrogram of silence."
    );
  }
  const at = Array.from(input).findIndex((entry) => !Number.isFinite(entry));
  return at === -1 ? null : `The spectrogram has ${input[at]}; give finite numbers.`;
}

/** The feed of an input that `inputFault` finds nothing wrong with. */
export function sourceFeed(plan: PlanWire, input: ArrayLike<number>): SourceFeed {
  const { length, vocabulary } = (plan.decoder as DecoderWire).encoder as EncoderWire;
  if (vocabulary === 0) return { entries: Float32Array.from(input), spare: 0 };
  return { entries: Int32Array.from(input), spare: length - input.length };
}

/** True where the encoder read the same input last. */
export function isSameInput(left: SourceFeed | null, right: SourceFeed): boolean {
  if (left?.entries.length !== right.entries.length) return false;
  return left.entries.every((entry, i) => entry === right.entries[i]);
}
