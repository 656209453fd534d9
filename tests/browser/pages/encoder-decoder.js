/** Pages that run models of an encoder and a decoder, as test_encoder_decoder.py asks for them. */
import { host, open, refusal } from "./zoo.js";

const collect = async (tokens) => {
  const found = [];
  for await (const token of tokens) found.push(token);
  return found;
};

const opened = async ({ family, target }, options = {}) => {
  const zoo = await open({ backend: target });
  return zoo.languageModel(`${host}/${target}/${family}.json`, options);
};

/** The tokens of each of `texts`, options of `generate`, in their order. */
export async function generate(feeds) {
  const llm = await opened(feeds);
  const found = [];
  for (const text of feeds.texts) found.push(await collect(llm.generate(text)));
  const { target, startTokens, inputShape, contextLength } = llm;
  await llm.dispose();
  return { found, target, startTokens, inputShape, contextLength };
}

/** What each of `texts` is refused with, and a text behind them. */
export async function refuse(feeds) {
  const llm = await opened(feeds);
  const faults = [];
  for (const text of feeds.texts) faults.push(await refusal(() => collect(llm.generate(text))));
  faults.push(await refusal(() => collect(llm.generate([1, 2]))));
  const stop = new AbortController();
  const { input } = feeds.text;
  const late = refusal(() => collect(llm.generate({ input, beams: 3, signal: stop.signal })));
  stop.abort(new Error("enough"));
  faults.push(await late);
  const found = await collect(llm.generate(feeds.text));
  await llm.dispose();
  return { faults, found };
}
