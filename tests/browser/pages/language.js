/** Pages that run a language model, as tests/browser/test_language.py asks for them. */
import { KernelZoo } from "../client/sdk.js";
import { deviceClass, host, open, refusal } from "./zoo.js";

const collect = async (tokens) => {
  const found = [];
  for await (const token of tokens) found.push(token);
  return found;
};

/** The zoo on a target, the address of the model `tiny-llama` for it, and what opens that. */
async function tiny({ target = "webgpu" }) {
  const zoo = await open({ backend: target });
  const file = `${host}/${target}/tiny-llama.json`;
  return { zoo, file, openTiny: (options = {}) => zoo.languageModel(file, options) };
}

export async function generate(feeds) {
  const { openTiny } = await tiny(feeds);
  const llm = await openTiny();
  const greedy = await collect(llm.generate([1, 2, 3], { maxTokens: 12 }));
  const whole = llm.stats();
  const turn = [1, 2, 3, ...greedy, 7, 8];
  const next = await collect(llm.generate(turn, { maxTokens: 6, interval: 4 }));
  const reused = llm.stats().reusedTokens;
  llm.rewind(2);
  await collect(llm.generate([1, 2, 9], { maxTokens: 4 }));
  const rewound = llm.stats().reusedTokens;
  const other = await collect(llm.generate([1, 2, 9], { maxTokens: 4 }));
  const long = await collect(llm.generate(feeds.long, { maxTokens: 4 }));
  const longer = await collect(llm.generate([...feeds.long, 1, 2, 3, 4, 5, 6], { maxTokens: 2 }));
  const blocks = llm.stats().reusedTokens;
  const ended = await collect(llm.generate([1, 2, 3], { stop: [greedy[5]] }));
  const full = await collect(llm.generate([1, 2, 3], { stop: [] }));
  const drawn = {};
  for (const [name, options] of Object.entries(feeds.drawn)) {
    const asked = { maxTokens: feeds.count, interval: 3, ...options };
    drawn[name] = await collect(llm.generate([5], asked));
  }
  const sure = await collect(llm.generate([1, 2, 3], { temperature: 1, topK: 1, maxTokens: 12 }));

  const stop = new AbortController();
  const seen = [];
  const stopped = await refusal(async () => {
    for await (const token of llm.generate([4, 4], { signal: stop.signal })) {
      seen.push(token);
      if (seen.length === 3) stop.abort(new Error("enough"));
    }
  });
  for await (const _ of llm.generate([4, 4])) break;
  const early = new AbortController();
  const first = refusal(() => llm.generate(feeds.long, { signal: early.signal }).next());
  early.abort(new Error("at once"));
  const unbegun = await first;
  const after = await collect(llm.generate([1, 2, 3], { maxTokens: 12 }));

  const running = llm.generate([1]);
  await running.next();
  const busy = await refusal(() => collect(llm.generate([1])));
  await running.return();
  const both = [llm.generate([1]), llm.generate([2])];
  const begun = await Promise.allSettled(both.map((text) => text.next()));
  await Promise.all(both.map((text) => text.return()));
  const together = begun.map(({ reason }) => String(reason ?? "began"));
  const faults = [
    busy,
    await refusal(() => collect(llm.generate("Hello"))),
    await refusal(() => collect(llm.generate([]))),
    await refusal(() => collect(llm.generate(Array(40).fill(1)))),
    await refusal(() => collect(llm.generate(Array(41).fill(1)))),
    await refusal(() => collect(llm.generate([160]))),
    await refusal(() => collect(llm.generate([1, undefined]))),
    await refusal(() => collect(llm.generate([1], { topP: 0 }))),
  ];
  const filling = [...feeds.long, 9, 8, 7, 6, 5, 4, 3, 2, 1];
  const atMaximum = await collect(llm.generate(filling, { stop: [] }));
  const survived = [];
  for await (const token of llm.generate([1, 2, 3], { maxTokens: 12, interval: 1 })) {
    survived.push(token);
    if (survived.length === 4) new BroadcastChannel("lose").postMessage(null);
  }
  const { target } = llm;
  await llm.dispose();
  const disposed = await refusal(() => collect(llm.generate([1])));
  return {
    target,
    greedy,
    whole,
    next,
    reused,
    rewound,
    other,
    long,
    longer,
    blocks,
    ended,
    full,
    drawn,
    sure,
    seen,
    stopped,
    unbegun,
    after,
    faults,
    together,
    atMaximum,
    survived,
    disposed,
  };
}

export async function adjust(feeds) {
  const { openTiny } = await tiny(feeds);
  const llm = await openTiny();
  const found = {};
  for (const [name, options] of Object.entries(feeds.asked)) {
    const asked = { maxTokens: feeds.count, interval: 3, stop: [], ...options };
    found[name] = await collect(llm.generate(feeds.prompt, asked));
  }
  const survived = [];
  const dearer = feeds.asked["repetition is dearer"];
  const asked = { maxTokens: feeds.count, interval: 1, stop: [], ...dearer };
  for await (const token of llm.generate(feeds.prompt, asked)) {
    survived.push(token);
    if (survived.length === 3) new BroadcastChannel("lose").postMessage(null);
  }
  const plain = await collect(llm.generate(feeds.prompt, { maxTokens: 6, stop: [] }));
  const faults = [];
  for (const options of [
    { logitBias: { 160: 1 } },
    { logitBias: { 1: "2" } },
    { repetitionPenalty: 0 },
    { temperature: "1" },
    { minP: 2 },
    { presencePenalty: NaN },
    { maxtokens: 3 },
  ])
    faults.push(await refusal(() => collect(llm.generate([1], options))));
  await llm.dispose();
  return { found, survived, plain, faults };
}

export async function onePass(feeds) {
  const { openTiny } = await tiny(feeds);
  const llm = await openTiny();
  await collect(llm.generate([1, 2, 3], { maxTokens: 2 }));
  const before = await counted();
  const found = await collect(llm.generate([1, 2, 3], { maxTokens: 12, stop: [] }));
  const after = await counted();
  await llm.dispose();
  const more = Object.entries(after).map(([name, count]) => [name, count - before[name]]);
  return { found, ofText: Object.fromEntries(more) };
}

export async function tooLittle(feeds) {
  const { openTiny } = await tiny(feeds);
  return await refusal(() => openTiny({ memoryBytes: 60000 }));
}

export async function inMidDownload(feeds) {
  const { openTiny } = await tiny(feeds);
  const stop = new AbortController();
  const compiled = ({ phase, loaded, total }) => {
    if (phase === "kernels" && loaded === total) stop.abort(new Error("no more"));
  };
  return await refusal(() => openTiny({ signal: stop.signal, onProgress: compiled }));
}

export async function faults(feeds) {
  const { zoo, file, openTiny } = await tiny(feeds);
  const network = await refusal(() => zoo.model(file));
  const { Blob } = globalThis;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super(["Object.defineProperty(navigator, 'gpu', {});", ...parts], options);
    }
  };
  const blind = await refusal(() => openTiny());
  globalThis.Blob = Blob;
  return { network, blind };
}

export async function shared(feeds) {
  const shared = await open({ threads: 2 });
  const llm = await shared.languageModel(`${host}/wasm/tiny-llama.json`);
  const found = await collect(llm.generate(feeds.long, { maxTokens: 8, stop: [] }));
  const { threads } = llm.stats();
  await llm.dispose();
  return { found, threads };
}

export async function grow(feeds) {
  const { zoo } = await tiny(feeds);
  const ended = async (tokens) => {
    const found = [];
    for (let next = await tokens.next(); ; next = await tokens.next()) {
      if (next.done) return [found, next.value];
      found.push(next.value);
    }
  };
  const llm = await zoo.languageModel("grown");
  const length = llm.contextLength;
  const filled = await ended(llm.generate([1, 2, 3], { stop: [] }));
  const [next] = await ended(llm.generate([1, 2, 3, ...filled[0].slice(0, 30)], { maxTokens: 2 }));
  const reused = llm.stats().reusedTokens;
  await llm.dispose();
  const small = await zoo.languageModel("grown", { memoryBytes: feeds.memoryBytes });
  const cut = await ended(small.generate([1, 2, 3], { stop: [] }));
  const refused = await refusal(() => ended(small.generate(feeds.long)));
  const after = await ended(small.generate([1, 2, 3], { maxTokens: 4 }));
  await small.dispose();
  return { length, filled, next, reused, cut, refused, after };
}

export async function keep(feeds) {
  const { zoo } = await tiny(feeds);
  const llm = await zoo.languageModel("grown", { save: "chat" });
  const begun = await collect(llm.generate([1, 2, 3], { maxTokens: 4, stop: [] }));
  await llm.saved;
  await llm.dispose();
  return [begun, await zoo.listGraphs()];
}

export async function offline(feeds) {
  const { zoo } = await tiny(feeds);
  const llm = await zoo.languageModel("grown", { save: "chat" });
  const filled = await collect(llm.generate([1, 2, 3], { stop: [] }));
  await llm.saved;
  const { contextLength: length, target } = llm;
  await llm.dispose();
  await zoo.deleteGraph("chat");
  const gone = await refusal(() => zoo.languageModel("grown", { save: "chat" }));
  return { filled, length, target, gone, keys: await zoo.listGraphs() };
}

export async function bundled(feeds) {
  const zoo = await KernelZoo.open(`${host}/bundle.json`, { deviceClass, backend: feeds.target });
  const llm = await zoo.languageModel("grown");
  const found = [];
  for await (const token of llm.generate([1, 2, 3], { stop: [] })) found.push(token);
  const { contextLength: length, target } = llm;
  await llm.dispose();
  const other = await refusal(() => zoo.languageModel("grown", { contextLength: 7 }));
  return { found, length, target, other };
}

export async function keepSplit() {
  const zoo = await KernelZoo.open(`${host}/split/bundle.json`, { deviceClass, backend: "wasm" });
  const held = [];
  const create = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    const address = create.call(URL, blob);
    if (!blob.type.includes("javascript")) held.push(address);
    return address;
  };
  const readable = async () =>
    (await Promise.allSettled(held.map((address) => fetch(address)))).map(({ status }) => status);
  const llm = await zoo.languageModel("grown", { save: "split" });
  const found = [];
  for await (const token of llm.generate([1, 2, 3], { stop: [] })) found.push(token);
  await llm.saved;
  const opened = await readable();
  await llm.dispose();
  const disposed = await readable();
  URL.createObjectURL = create;
  return { found, open: [...new Set(opened)], disposed: [...new Set(disposed)] };
}

async function until(holds) {
  for (const start = performance.now(); performance.now() < start + 120_000 && !holds(); ) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function tune(feeds) {
  const { zoo, openTiny } = await tiny(feeds);
  const heard = [];
  const llm = await zoo.languageModel("tuned", { tune: "idle" });
  for (const event of ["swap", "regression"]) {
    llm.on(event, ({ candidate }) => heard.push([event, candidate]));
  }
  const before = await collect(llm.generate(feeds.long, { maxTokens: 8 }));
  await until(() => llm.tuning.state === "done");
  await until(() => heard.length > 0);
  const { measured, reason, swaps, state } = llm.tuning;
  const after = await collect(llm.generate([...feeds.long, ...before], { maxTokens: 2 }));
  const reused = llm.stats().reusedTokens;
  await llm.dispose();
  const later = await zoo.languageModel("tuned", { tune: "idle" });
  const again = await collect(later.generate(feeds.long, { maxTokens: 8 }));
  await later.dispose();
  const wins = Object.entries(localStorage).filter(([key]) => key.includes("won:"));
  const kept = wins.flatMap(([, note]) => Object.values(JSON.parse(note).wins));
  localStorage.clear();
  const won = kept.map(({ kernel }) => kernel.candidate);
  const plain = await openTiny();
  const { tuning } = plain;
  await plain.dispose();
  const grown = await zoo.languageModel("grown", { tune: "idle" });
  const filled = await collect(grown.generate([1, 2, 3], { stop: [] }));
  await grown.dispose();
  const shown = { measured, reason, state, swaps, tuning: `${tuning}` };
  return { heard, before, after, reused, again, won, filled, ...shown };
}

export async function traps(feeds) {
  const { zoo } = await tiny(feeds);
  const heard = [];
  const llm = await zoo.languageModel("trapping", { tune: "idle" });
  llm.on("swap", ({ candidate }) => heard.push(["swap", candidate]));
  llm.on("regression", ({ candidate, reason }) => heard.push(["regression", candidate, reason]));
  await until(() => heard.length > 0);
  const { reason, measured } = llm.tuning;
  const found = await collect(llm.generate(feeds.long, { maxTokens: 10, interval: 3 }));
  const more = await collect(llm.generate([...feeds.long, ...found.slice(0, 3)], { maxTokens: 4 }));
  await llm.dispose();
  localStorage.clear();
  return { heard, found, more, reason, measured };
}

export async function lostTwice(feeds) {
  const { zoo } = await tiny(feeds);
  const llm = await zoo.languageModel("grown");
  const targets = [llm.target];
  const found = [];
  let share = null;
  for await (const token of llm.generate([1, 2, 3], { stop: [], interval: 1 })) {
    found.push(token);
    const { bandwidthShare, gigabytesPerSecond } = llm.stats();
    if (found.length === 3) share = bandwidthShare / (gigabytesPerSecond / 8);
    if (found.length % 3 === 0) new BroadcastChannel("lose").postMessage(null);
  }
  targets.push(llm.target);
  const { targetReason } = llm;
  await llm.dispose();
  sessionStorage.clear();
  return { targets, found, share, targetReason };
}

export async function halfCache(feeds) {
  const { zoo } = await tiny(feeds);
  const llm = await zoo.languageModel("half");
  const targets = [llm.target];
  const { memoryBytes } = llm.stats();
  const long = await collect(llm.generate(feeds.long, { maxTokens: 4, stop: [] }));
  const found = [];
  for await (const token of llm.generate([1, 2, 3], { stop: [], interval: 1 })) {
    found.push(token);
    if (found.length % 12 === 0) new BroadcastChannel("lose").postMessage(null);
  }
  targets.push(llm.target);
  await llm.dispose();
  sessionStorage.clear();
  return { targets, memoryBytes, long, found };
}

export async function halfInLittle(feeds) {
  const { zoo } = await tiny(feeds);
  const { memoryBytes } = feeds;
  const refused = await refusal(async () => (await open()).languageModel("half", { memoryBytes }));
  const llm = await zoo.languageModel("half", { memoryBytes });
  const { target } = llm;
  const found = [];
  const lost = await refusal(async () => {
    for await (const token of llm.generate([1, 2, 3], { stop: [], interval: 1 })) {
      found.push(token);
      if (found.length % 3 === 0) new BroadcastChannel("lose").postMessage(null);
    }
  });
  await llm.dispose();
  sessionStorage.clear();
  return { refused, target, found, lost };
}

export async function elsewhere(feeds) {
  const { zoo } = await tiny(feeds);
  const llm = await zoo.languageModel("served");
  const stop = new AbortController();
  const found = [];
  const told = await refusal(async () => {
    const options = { maxTokens: 12, interval: 1, signal: stop.signal };
    for await (const token of llm.generate([1, 2, 3], options)) {
      found.push(token);
      if (found.length !== 4) continue;
      await fetch(`${host}/serve/${feeds.served}`, { method: "POST", body: "{}" });
      new BroadcastChannel("lose").postMessage(null);
      if (feeds.served === "half") setTimeout(() => stop.abort(new Error("waited enough")), 3000);
    }
  });
  await llm.dispose();
  await fetch(`${host}/serve/right`, { method: "POST", body: "{}" });
  return { told, found };
}

export async function left(feeds) {
  const { openTiny } = await tiny(feeds);
  await new Promise((resolve) => {
    const onProgress = ({ phase, loaded, total }) => {
      if (phase === "kernels" && loaded === total) resolve();
    };
    openTiny({ onProgress });
  });
}

export async function back(feeds) {
  const { openTiny } = await tiny(feeds);
  return await collect((await openTiny()).generate([1, 2, 3], { maxTokens: 4 }));
}
