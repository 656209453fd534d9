/** Pages that run a model of a range, as tests/browser/test_ranges.py and its sister ask for them. */
import { host, open, refusal } from "./zoo.js";

export async function sentences(feeds, options = { threads: 2 }) {
  const zoo = await open(options);
  const model = await zoo.model(`${host}/encoder.json`, { check: "first" });
  const [found, shapes] = [[], []];
  for (const each of feeds) {
    const longs = ([name, entries]) => [name, BigInt64Array.from(entries.map(BigInt))];
    const outputs = await model.run(Object.fromEntries(Object.entries(each).map(longs)));
    const plain = ([name, data]) => [name, [...data]];
    found.push(Object.fromEntries(Object.entries(outputs).map(plain)));
    const shape = ([name, { shape }]) => [name, shape];
    shapes.push(Object.fromEntries(Object.entries(outputs).map(shape)));
  }
  const { threads, target } = model.plan;
  const told = { threads, target, inputs: model.inputs.map(({ name }) => name) };
  await model.dispose();
  zoo.dispose();
  return { found, shapes, ...told };
}

export async function profiles(lengths) {
  const zoo = await open();
  const model = await zoo.model(`${host}/encoder.json`, { check: false });
  const told = async () => {
    const profile = await model.profile({ runs: 2 });
    const shares = profile.calls.map(({ share }) => share);
    return { table: profile.table(), shares, totalMs: profile.totalMs };
  };
  const found = [await told()];
  for (const length of lengths) {
    const ones = new Array(length).fill(1);
    await model.run({ input_ids: ones, attention_mask: ones, token_type_ids: ones });
    found.push(await told());
  }
  await model.dispose();
  zoo.dispose();
  return found;
}

export async function batches(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/encoder.json`, { check: false });
  const found = [];
  for (const { shape, ...each } of feeds) {
    const shaped = ([name, data]) => [name, { data: BigInt64Array.from(data.map(BigInt)), shape }];
    const outputs = await model.run(Object.fromEntries(Object.entries(each).map(shaped)));
    found.push(
      Object.fromEntries(
        Object.entries(outputs).map(([name, data]) => [name, [[...data], data.shape]]),
      ),
    );
  }
  await model.dispose();
  zoo.dispose();
  return found;
}

export async function refusals() {
  const zoo = await open();
  const model = await zoo.model(`${host}/encoder.json`, { check: false });
  const ones = (length) => new Array(length).fill(1);
  const of = (length, own = {}) => ({
    input_ids: ones(length),
    attention_mask: ones(length),
    token_type_ids: ones(length),
    ...own,
  });
  const many = (batch, length) =>
    Object.fromEntries(
      Object.keys(of(1)).map((name) => [
        name,
        { data: ones(batch * length), shape: [batch, length] },
      ]),
    );
  const refused = [];
  for (const each of [
    of(65),
    of(0),
    of(9, { attention_mask: ones(8) }),
    of(9, { input_ids: { data: ones(9), shape: [9, 1] } }),
    of(9, { input_ids: { data: ones(9), shape: [1, 9, 1] } }),
    many(6, 9),
    of(9, { input_ids: ones(8).concat(61) }),
    of(9, { attention_mask: undefined }),
    of(9, { other: ones(9) }),
    of(9, { input_ids: "some text" }),
  ])
    refused.push(await refusal(() => model.run(each)));
  const shaped = await model.run(of(9, { input_ids: { data: ones(9), shape: [1, 9] } }));
  const inArrays = [];
  for (const kind of [Uint8Array, Int32Array, BigInt64Array, BigUint64Array]) {
    const input_ids = kind.from(ones(9).map(kind.name.startsWith("Big") ? BigInt : Number));
    inArrays.push((await model.run(of(9, { input_ids }))).last_hidden_state);
  }
  const isSame = (found) => found.every((entry, i) => entry === shaped.last_hidden_state[i]);
  await model.dispose();
  zoo.dispose();
  return { refused, entries: shaped.last_hidden_state.length, same: inArrays.map(isSame) };
}
