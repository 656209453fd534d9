/** Pages that run a model of several open dimensions, as tests/browser/test_axes.py asks for them. */
import { host, open, refusal } from "./zoo.js";

const typed = { int64: (data) => BigInt64Array.from(data.map(BigInt)), float32: Float32Array.from };

/** Feeds as a page gives them: `[data, shape]` by the dtype of their input. */
const given = (model, feeds) =>
  Object.fromEntries(
    model.inputs.map(({ name, dtype }) => {
      const [data, shape] = feeds[name];
      return [name, { data: typed[dtype].call(Float32Array, data), shape }];
    }),
  );

const plain = (outputs) =>
  Object.fromEntries(
    Object.entries(outputs).map(([name, data]) => [name, [[...data].map(Number), data.shape]]),
  );

export async function runs(name, feeds, options = { threads: 2 }) {
  const zoo = await open(options);
  const model = await zoo.model(`${host}/${name}.json`, { check: "first" });
  const found = [];
  for (const each of feeds) found.push(plain(await model.run(given(model, each))));
  const told = { target: model.plan.target, inputs: model.inputs.map(({ name }) => name) };
  await model.dispose();
  zoo.dispose();
  return { found, ...told };
}

/** Takes a text, and then the likeliest token again and again, with the cache of the run before. */
export async function decoded(name, text, tokens, options = { threads: 2 }) {
  const zoo = await open(options);
  const model = await zoo.model(`${host}/${name}.json`, { check: false });
  const caches = model.inputs.filter(({ name }) => name.startsWith("past_key_values."));
  const empty = ({ name, shape }) => [
    name,
    { data: new Float32Array(0), shape: shape.map((n, i) => (i === 2 ? 0 : n)) },
  ];
  let past = Object.fromEntries(caches.map(empty));
  const [all, shapes] = [[...text], []];
  let taken = 0;
  for (let step = 0; step < tokens; step++) {
    const next = all.slice(taken);
    const longs = (data) => ({
      data: BigInt64Array.from(data, BigInt),
      shape: [1, data.length],
    });
    const outputs = await model.run({
      input_ids: longs(next),
      attention_mask: longs(all.map(() => 1)),
      position_ids: longs(next.map((_, i) => taken + i)),
      ...past,
    });
    taken = all.length;
    all.push(outputs.logits.indexOf(Math.max(...outputs.logits)));
    past = Object.fromEntries(
      caches.map(({ name }) => {
        const data = outputs[name.replace("past_key_values", "present")];
        return [name, { data, shape: data.shape }];
      }),
    );
    shapes.push(Object.values(past)[0].shape);
  }
  const { target } = model.plan;
  await model.dispose();
  zoo.dispose();
  return { all, shapes, target };
}

export async function refusals(name, feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/${name}.json`, { check: false });
  const refused = [];
  for (const each of feeds) refused.push(await refusal(() => model.run(each)));
  await model.dispose();
  zoo.dispose();
  return refused;
}
