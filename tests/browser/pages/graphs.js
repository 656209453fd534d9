/** Models that a device keeps, as tests/browser/test_graphs.py asks for them. */
import { host, open, refusal } from "./zoo.js";

/** What a page does with the model `kept`, and what befalls its files. */
export async function visitor(feeds) {
  const folder = async () => {
    const root = await navigator.storage.getDirectory();
    return root.getDirectoryHandle("kernelzoo-graphs", { create: true });
  };
  const names = async () => {
    const found = [];
    for await (const name of (await folder()).keys()) found.push(name);
    return found;
  };
  const fileOf = async (end) =>
    (await folder()).getFileHandle((await names()).find((name) => name.endsWith(end)));
  const change = async (end, changed) => {
    const handle = await fileOf(end);
    const body = changed(new Uint8Array(await (await handle.getFile()).arrayBuffer()));
    const writing = await handle.createWritable();
    await writing.write(body);
    await writing.close();
  };
  const records = (work) =>
    new Promise((resolve, reject) => {
      const opening = indexedDB.open("kernelzoo-graphs", 1);
      opening.onsuccess = () => {
        const change = opening.result.transaction(["descriptions", "pieces"], "readwrite");
        change.oncomplete = () => resolve(opening.result.close());
        change.onabort = () => reject(change.error);
        work(change.objectStore("pieces"), change.objectStore("descriptions"));
      };
    });
  const sentence = (bytes) => new TextDecoder().decode(bytes);
  const damages = {
    none: async () => undefined,
    byte: () => change(".weights", (body) => body.fill(body[2000] ^ 1, 2000, 2001)),
    torn: () => change(".weights", (body) => body.subarray(0, body.length - 8)),
    version: () =>
      change(".json", (body) => sentence(body).replace(/"version":\d+/, '"version":1')),
    index: () => change(".json", (body) => body.subarray(0, 90)),
    note: async () => localStorage.clear(),
    cleared: async () => (await folder()).removeEntry((await fileOf(".weights")).name),
    kernels: () =>
      change(".json", (body) =>
        sentence(body).replace(/"modules":.{2}"bytes":"AGFzbQEAAAA/, "$&////"),
      ),
    "record changed": () =>
      records((pieces) => {
        pieces.openCursor().onsuccess = ({ target: { result } }) => {
          result.update(result.value.fill(result.value[20] ^ 1, 20, 21));
        };
      }),
    "records cleared": () => records((pieces) => pieces.clear()),
  };
  const zoo = await open();
  const opened = async (options = {}) => {
    const model = await zoo.model(`${host}/kept.json`, { save: "mine", ...options });
    const { y } = await model.run(feeds);
    await model.complete();
    return [model, [...y]];
  };
  const loaded = async () => {
    const model = await zoo.loadGraph("mine");
    const { y } = await model.run(feeds);
    const { inputs, outputs } = model;
    await model.dispose();
    return { y: [...y], inputs, outputs };
  };
  const visit = async () => {
    const [model, y] = await opened();
    await model.saved;
    await model.dispose();
    return y;
  };
  return { folder, names, fileOf, change, records, damages, zoo, opened, loaded, visit, refusal };
}

/** As on a device that packs all weights sooner than it reads them packed. */
function measured(change) {
  const told = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
  Object.defineProperty(Worker.prototype, "onmessage", {
    configurable: true,
    set(listener) {
      told.set.call(this, (event) => {
        const { ways } = event.data;
        if (ways) change(ways);
        listener(event);
      });
    },
  });
}

export async function allPlain(feeds) {
  const { fileOf, zoo, opened, loaded, visit } = await visitor(feeds);
  measured((ways) => {
    ways.plain = ways.queues.flat().map(() => true);
  });
  const ys = [await visit()];
  const [model, y] = await opened();
  await zoo.saveGraph("mine", model);
  const { weights } = JSON.parse(await (await (await fileOf(".json")).getFile()).text());
  ys.push(y, await visit(), (await loaded()).y);
  await zoo.deleteGraph("mine");
  return { plain: weights.map(({ plain }) => plain), ys };
}

export async function keptPlain(feeds) {
  const { fileOf, visit } = await visitor(feeds);
  measured((ways) => {
    const all = ways.queues.flat().sort((a, b) => a - b);
    ways.plain = all.map(() => true);
    ways.queues = ways.queues.map((_, thread) => (thread === 1 ? all : []));
  });
  const outputs = [await visit(), await visit()];
  const { queues } = JSON.parse(await (await (await fileOf(".json")).getFile()).text());
  return { outputs, queues: queues.length, isolated: crossOriginIsolated };
}

/** What reads stops at its second weight until the page has heard of it. */
export async function holding(feeds, reading) {
  const holding = `{
    const post = MessagePort.prototype.postMessage;
    let breaths = 0;
    MessagePort.prototype.postMessage = function (...told) {
      breaths += 1;
      if (breaths !== 2) return post.apply(this, told);
      const gate = new BroadcastChannel("gate");
      gate.onmessage = () => post.apply(this, told);
      gate.postMessage("held");
    };
  }`;
  const Plain = Blob;
  globalThis.Blob = class extends Plain {
    constructor(parts, options) {
      super([holding, ...parts], options);
    }
  };
  globalThis.gate = new BroadcastChannel("gate");
  const held = new Promise((resolve) => {
    gate.onmessage = resolve;
  });
  globalThis.reading = (await visitor(feeds))[reading]();
  globalThis.reading.catch(() => undefined);
  await held;
  globalThis.Blob = Plain;
}

/** The answer of what was held, or its refusal. */
export function released(refused) {
  gate.postMessage("go");
  return refused ? refusal(() => globalThis.reading) : globalThis.reading;
}

/** Watches what workers are asked to read, of which nothing after `stop` pieces reaches them. */
function spied(stop = Number.POSITIVE_INFINITY) {
  const seen = { most: 0, again: 0, sizes: [] };
  let [held, last] = [0, null];
  const post = Worker.prototype.postMessage;
  const watched = new WeakSet();
  Worker.prototype.postMessage = function (message, transfer) {
    if (!watched.has(this)) {
      watched.add(this);
      this.addEventListener("message", ({ data }) => {
        if (data.type !== "read") return;
        seen.sizes.push(data.piece.length);
        last = data.piece.buffer;
        held -= 1;
      });
    }
    if (message.type === "read") {
      seen.most = Math.max(seen.most, ++held);
      seen.again += message.into.buffer === last ? 1 : 0;
    }
    if (!(message.type === "read" && seen.sizes.length >= stop)) post.call(this, message, transfer);
  };
  const end = () => {
    Worker.prototype.postMessage = post;
  };
  return { seen, end };
}

export async function saveLong(feeds) {
  const { zoo } = await visitor(feeds);
  const { seen, end } = spied();
  const model = await zoo.model(`${host}/long.json`, { check: false });
  await zoo.saveGraph("long", model);
  end();
  await zoo.deleteGraph("long");
  await model.dispose();
  return [seen.sizes, seen.most, seen.again];
}

export async function openSavedLong(feeds) {
  const { zoo } = await visitor(feeds);
  const { seen, end } = spied();
  const model = await zoo.model(`${host}/long.json`, { check: false, save: "long" });
  await model.saved;
  end();
  const keys = await zoo.listGraphs();
  await zoo.deleteGraph("long");
  await model.dispose();
  return [seen.sizes, keys];
}

export async function beforeTheFirstOutput(feeds) {
  const { zoo } = await visitor(feeds);
  let asked = 0;
  navigator.storage.getDirectory = () => {
    asked += 1;
    return StorageManager.prototype.getDirectory.call(navigator.storage);
  };
  const model = await zoo.model(`${host}/kept.json`, { save: "later", check: false });
  await model.complete();
  await new Promise((done) => setTimeout(done, 500));
  const before = asked;
  await model.run(feeds);
  await model.saved;
  delete navigator.storage.getDirectory;
  await model.dispose();
  const keys = await zoo.listGraphs();
  await zoo.deleteGraph("later");
  return [before, asked > 0, keys];
}

export async function savedAnew(feeds) {
  const { names, zoo } = await visitor(feeds);
  const model = await zoo.model(`${host}/long.json`, { check: false });
  await zoo.saveGraph("long", model);
  await model.dispose();
  const kept = (await names()).length;
  const keys = await zoo.listGraphs();
  await zoo.deleteGraph("long");
  return [kept, keys];
}

export async function beginToSave(feeds) {
  const { zoo } = await visitor(feeds);
  const { seen } = spied(1);
  const model = await zoo.model(`${host}/long.json`, { check: false });
  zoo.saveGraph("long", model);
  while (seen.sizes.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
}

export async function beginToWrite(feeds) {
  const { zoo } = await visitor(feeds);
  const channel = new BroadcastChannel("stalled");
  const stalled = new Promise((resolve) => {
    channel.onmessage = resolve;
  });
  await zoo.model(`${host}/long.json`, { check: false, save: "long" });
  await stalled;
}

export async function keptByAnother(feeds) {
  const { zoo, loaded } = await visitor(feeds);
  const model = await zoo.loadGraph("mine");
  await zoo.saveGraph("other", model);
  await zoo.deleteGraph("mine");
  const { y } = await model.run(feeds);
  return [[...y], await zoo.listGraphs(), await refusal(loaded)];
}

export async function refusedRecords(feeds) {
  const { records, zoo, opened } = await visitor(feeds);
  const [model, y] = await opened();
  const refused = await refusal(() => zoo.saveGraph("mine", model));
  await refusal(() => model.saved);
  let left;
  await records((pieces) => {
    pieces.count().onsuccess = ({ target }) => {
      left = target.result;
    };
  });
  return [y, refused, await zoo.listGraphs(), left];
}

export async function refusedGraph(feeds) {
  const { zoo, opened } = await visitor(feeds);
  const [model, y] = await opened();
  const refused = await refusal(() => zoo.saveGraph("mine", model));
  await refusal(() => model.saved);
  return [y, refused, await zoo.listGraphs()];
}
