/** Pages that run a model while it is tuned, as tests/browser/test_tuning.py asks for them. */
import { host, open } from "./zoo.js";

/**
 * Fed as the first input where a test's kernels are to be wrong, which no feed is.
 */
const RARE = 123;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const later = {};

/** A visitor feeds `x`; `right` is what comes out for the feeds that were given. */
class Visitor {
  heard = [];
  worst = 0;

  constructor(feeds) {
    this.feeds = feeds;
    this.x = Float32Array.from(feeds.x);
    this.right = feeds.y;
    this.largest = this.right.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  }

  /** Opens the model to be tuned. Its `run` holds outputs to the right ones. */
  async tuned(threads = 1, options = {}) {
    const zoo = await open({ threads });
    const model = await zoo.model(`${host}/deep.json`, { tune: "idle", ...options });
    model.on("swap", ({ candidate }) => this.heard.push(["swap", candidate]));
    model.on("regression", ({ candidate, reason }) =>
      this.heard.push(["regression", candidate, reason]),
    );
    const run = async () => {
      const { y } = await model.run({ x: this.x });
      this.worst = Math.max(this.worst, this.#difference(y));
      await sleep(6);
    };
    return { zoo, model, run };
  }

  #difference(y) {
    const most = (worst, entry, i) => Math.max(worst, Math.abs(entry - this.right[i]));
    return y.reduce(most, 0) / this.largest;
  }

  agrees(one, other) {
    return one.every((entry, i) => Math.abs(entry - other[i]) <= 1e-4 * this.largest);
  }

  /** Runs a model on rare inputs until `holds`, at most so many seconds. Gives the last output. */
  async runs(model, seconds, holds) {
    let last;
    let runs = 0;
    for (
      const end = performance.now() + 1e3 * seconds;
      performance.now() < end && !holds();
      runs++
    ) {
      last = (await model.run({ x: this.x })).y;
      // Samples take a share of the time, so that a kernel that is much faster waits for its sample.
      await sleep(0);
    }
    return { last, runs };
  }

  takenBack() {
    return this.heard.some(([what]) => what === "regression");
  }
}

async function until({ run }, holds) {
  for (const start = performance.now(); performance.now() < start + 30_000 && !holds(); ) {
    await run();
  }
}

function shown({ model }) {
  const { state, reason, measured, sent, requests } = model.tuning;
  const [{ level, candidate }] = model.plan.calls;
  const asked = sent.map(({ path }) => path);
  return { state, reason, measured, level, candidate, asked, requests };
}

const notes = () => Object.entries(localStorage).filter(([key]) => key.includes("won:"));

export async function twoVisits(feeds) {
  const visitor = new Visitor(feeds);
  const first = await visitor.tuned();
  const { tuning } = first.model;
  await until(first, () => tuning.state === "done" && tuning.swaps.length > 0);
  const before = shown(first);
  await first.model.dispose();
  const second = await visitor.tuned();
  await second.run();
  const after = shown(second);
  await second.model.dispose();
  // A browser of another version has not found what is kept.
  for (const [key, text] of notes()) {
    const note = JSON.parse(text);
    for (const win of Object.values(note.wins)) win.browser = "an older one";
    localStorage.setItem(key, JSON.stringify(note));
  }
  const third = await visitor.tuned();
  const unproven = shown(third);
  await until(third, () => shown(third).level === "page");
  const proven = shown(third);
  await third.model.dispose();
  return { before, after, unproven, proven, heard: visitor.heard, worst: visitor.worst };
}

export async function rarelyWrong(feeds, threads) {
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned(threads);
  const { model, run } = one;
  await until(one, () => model.tuning.swaps.length > 0);
  visitor.x[0] = RARE;
  const { last, runs } = await visitor.runs(model, 20, () => visitor.takenBack());
  const { y } = await model.run({ x: visitor.x });
  const agree = visitor.agrees(y, last);
  visitor.x[0] = feeds.x[0];
  await run();
  const after = shown(one);
  const used = model.plan.threads;
  await model.dispose();
  return { heard: visitor.heard, worst: visitor.worst, agree, runs, after, threads: used };
}

/** `expected`: how many swaps and regressions are waited for. */
export async function twoInARow(feeds, expected) {
  const visitor = new Visitor(feeds);
  const { x, heard } = visitor;
  const one = await visitor.tuned();
  const { model } = one;
  await until(one, () => model.tuning.swaps.length > 1);
  // All rows are others: whichever part of a call is compared tells.
  for (const i of x.keys()) x[i] = 2 * x[i];
  x[0] = RARE;
  let last;
  let runs = 0;
  // Samples take a share of the time of inferences.
  const settled = () => heard.length === expected && (expected > 2 || runs > 5_000);
  for (const end = performance.now() + 30_000; performance.now() < end && !settled(); runs++) {
    last = (await model.run({ x })).y;
    if (heard.length > 2) await sleep(6);
  }
  const after = shown(one);
  await model.dispose();
  const plain = await (await open({ threads: 1 })).model(`${host}/deep.json`);
  const { y } = await plain.run({ x });
  return { heard, agree: visitor.agrees(y, last), after };
}

/** With `early` the rare input comes in the visit that finds the kernel, before it is loaded. */
export async function foundOut(feeds, early) {
  const visitor = new Visitor(feeds);
  const { x } = visitor;
  const one = await visitor.tuned();
  await until(one, () => visitor.heard.length > 0);
  const won = shown(one);
  if (early) {
    x[0] = RARE;
    await one.model.run({ x });
    x[0] = feeds.x[0];
  }
  await one.model.dispose();
  const two = await visitor.tuned();
  const loaded = shown(two);
  const { tuning } = two.model;
  await two.run();
  x[0] = RARE;
  const { y } = await two.model.run({ x });
  await until(two, () => tuning.state === "done");
  const last = (await two.model.run({ x })).y;
  const agree = visitor.agrees(y, last);
  x[0] = feeds.x[0];
  visitor.worst = 0;
  await two.run();
  const after = shown(two);
  await two.model.dispose();
  return { heard: visitor.heard, won, loaded, after, agree, worst: visitor.worst };
}

export async function silentlyWrong(feeds, threads) {
  const visitor = new Visitor(feeds);
  const { x } = visitor;
  const one = await visitor.tuned(threads);
  await until(one, () => visitor.heard.length > 0);
  await one.model.dispose();
  const two = await visitor.tuned(threads);
  const loaded = shown(two);
  await two.run();
  // All rows are others: whichever part of a call is compared tells.
  for (const i of x.keys()) x[i] = 2 * x[i];
  x[0] = RARE;
  const { last } = await visitor.runs(two.model, 20, () => visitor.takenBack());
  const { y } = await two.model.run({ x });
  const agree = visitor.agrees(y, last);
  const after = shown(two);
  await two.model.dispose();
  x.set(feeds.x);
  visitor.worst = 0;
  const three = await visitor.tuned(threads);
  await until(three, () => three.model.tuning.state === "done");
  const next = shown(three);
  await three.model.dispose();
  return { heard: visitor.heard, loaded, agree, after, next, worst: visitor.worst };
}

export async function firstVisit(feeds) {
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned();
  await until(one, () => visitor.heard.length > 0);
  const after = shown(one);
  await one.model.dispose();
  return after;
}

export async function withoutWhatIsKept(feeds) {
  const visitor = new Visitor(feeds);
  const two = await visitor.tuned();
  const loaded = shown(two);
  await two.run();
  await two.model.dispose();
  const kept = notes().map(([, note]) => Object.keys(JSON.parse(note).wins).length);
  return { loaded, worst: visitor.worst, kept };
}

export async function noRoom(feeds, threads) {
  // The memory of the model cannot grow.
  const full = `if (self.name === "kernelzoo model") WebAssembly.Memory.prototype.grow = () => {
    throw new RangeError("no room");
  };`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([full, ...parts], options);
    }
  };
  const refused = [];
  globalThis.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        if (data.type === "swapped") refused.push(...data.refused);
      });
    }
  };
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned(threads);
  const planned = () =>
    JSON.stringify(one.model.plan.calls.map((call) => ({ ...call, measuredMs: null })));
  const before = planned();
  await until(one, () => one.model.tuning.state === "done" && refused.length > 0);
  for (let i = 0; i < 10; i++) await one.run();
  const after = shown(one);
  const same = planned() === before;
  await one.model.dispose();
  return { heard: visitor.heard, worst: visitor.worst, after, refused, same };
}

export async function untilDone(feeds) {
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned();
  await until(one, () => one.model.tuning.state === "done");
  for (let i = 0; i < 10; i++) await one.run();
  const after = shown(one);
  await one.model.dispose();
  return { heard: visitor.heard, worst: visitor.worst, after };
}

/** `expected`: how many swaps and regressions are waited for. */
export async function provenInRuns(feeds, expected) {
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned(2);
  await until(one, () => visitor.heard.length >= expected);
  const after = shown(one);
  await one.model.dispose();
  return { heard: visitor.heard, worst: visitor.worst, after };
}

/** Puts signals that pause tuning in the place of the browser's. */
function signals() {
  const battery = Object.assign(new EventTarget(), { charging: false, level: 0.1 });
  const connection = Object.assign(new EventTarget(), { saveData: false });
  const stub = (name, value) => Object.defineProperty(navigator, name, { value });
  stub("getBattery", async () => battery);
  stub("connection", connection);
  stub("webdriver", false);
  let report;
  globalThis.PressureObserver = class {
    constructor(told) {
      report = told;
    }
    async observe() {}
    disconnect() {}
  };
  return {
    press: (state) => report([{ state }]),
    save: (saveData) => {
      connection.saveData = saveData;
      connection.dispatchEvent(new Event("change"));
    },
    charge: () => {
      battery.charging = true;
      battery.dispatchEvent(new Event("chargingchange"));
    },
    hide: (hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    },
  };
}

export async function interrupted(feeds) {
  const { press, save, charge, hide } = signals();
  Storage.prototype.setItem = () => {
    throw new DOMException("full", "QuotaExceededError");
  };
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned();
  const paused = [];
  const waits = async () => {
    for (let i = 0; i < 20; i++) await one.run();
    paused.push(shown(one));
  };
  // One reason goes once the next has come.
  await waits();
  press("critical");
  charge();
  await waits();
  save(true);
  press("nominal");
  await waits();
  hide(true);
  save(false);
  await fetch(`${host}/away`, { method: "POST", body: "{}" });
  await waits();
  hide(false);
  await until(one, () => one.model.tuning.reason.length > 0);
  const away = shown(one);
  Object.assign(later, { one, visitor });
  return { paused, away, worst: visitor.worst };
}

/** Goes on with the model of `interrupted`. */
export async function comeBack() {
  const { one, visitor } = later;
  await until(one, () => one.model.tuning.swaps.length > 0);
  await until(one, () => one.model.tuning.sent.length > 1);
  const after = shown(one);
  one.model.tuning.stop();
  const stopped = shown(one);
  await one.run();
  await one.model.dispose();
  const heard = [...visitor.heard];
  const brief = await visitor.tuned(1, { budgetMs: 1 });
  await until(brief, () => brief.model.tuning.state === "done");
  const spent = shown(brief);
  await brief.model.dispose();
  return { after, stopped, spent, heard };
}

export async function postponed(feeds) {
  const visitor = new Visitor(feeds);
  const one = await visitor.tuned(1, { check: false });
  await until(one, () => one.model.tuning.reason.length > 0);
  Object.assign(later, { one, visitor });
  return { heard: visitor.heard, worst: visitor.worst, now: shown(one) };
}

/** Goes on with the model of `postponed`. */
export async function putOff() {
  const { one, visitor } = later;
  await until(one, () => visitor.heard.length > 0);
  const after = shown(one);
  await one.model.dispose();
  return { heard: visitor.heard, worst: visitor.worst, after };
}
