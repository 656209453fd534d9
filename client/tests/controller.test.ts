import assert from "node:assert/strict";
import { test } from "node:test";
import type { FromWorker as FromAgent } from "../src/agent/messages.js";
import type { Pause } from "../src/agent/pauses.js";
import { memoryNotebook } from "../src/device/notebook.js";
import type { Failure } from "../src/executor/messages.js";
import type { Answered } from "../src/model/request.js";
import { type Handlers, handle } from "../src/rpc.js";
import {
  answerWithTrusted,
  type Effect,
  type FromModel,
  initialState,
  isAtFault,
  step,
  suspects,
  type TuningEvent,
  type TuningState,
  tuningState,
} from "../src/tuning/controller.js";
import type { FromMeasurer, Winner } from "../src/tuning/messages.js";
import { Wins } from "../src/tuning/win-cache.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";
import type { KernelWire, MeasuredTarget } from "../src/wire/types.js";

/** Answers numbers from 0 to 1 that a seed decides: the generator of Numerical Recipes, chapter 7. */
function drawing(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const WORKLOADS = ["product", "sum", "norm"];
const CANDIDATES = 8;

const kernel = (name: string): KernelWire =>
  ({ sha256: name, candidate: name }) as unknown as KernelWire;

/** A model whose zoo serves `WORKLOAD.zoo` for each workload, and has confirmed the last. */
function answerOf(plan: object): ModelAnswer {
  const kernels = WORKLOADS.map((workload, i) => {
    const state = i === WORKLOADS.length - 1 ? "confirmed" : "provisional";
    return [workload, { kernel: kernel(`${workload}.zoo`), state, tolerance: 1 }];
  });
  return {
    ...{ name: "model", device_class: "class", plan },
    kernels: Object.fromEntries(kernels),
  } as unknown as ModelAnswer;
}

const planOf = (): object => ({ calls: [], kernels: WORKLOADS, dimensions: {} });

type Draw = () => number;

/** The model's worker: kernels that run, those before the first swap, and messages under way. */
interface ModelWorker {
  readonly running: Map<string, string>;
  readonly before: Map<string, string>;
  swap: readonly Winner[] | null;
  isBusy: boolean;
  inbox: FromModel[];
}

/**
 * A page with a tuner, its workers and its visitor, which do at random what they may do at all.
 * Messages of workers are under way for a while. It fails where the tuner breaks a rule.
 */
class World {
  state: TuningState;
  readonly events: TuningEvent["type"][] = [];
  readonly #draw: Draw;
  readonly #wins = new Wins(memoryNotebook(), "zoo", "class", "browser");
  readonly #target: MeasuredTarget;
  #answer = answerOf(planOf());
  #nowMs = 1;
  #isStopped = false;
  /** Artifacts that were refused or taken back in this visit. */
  readonly #barred = new Set<string>();
  // The measurer: what it must not try, what it has been told last, and its messages under way.
  #measurer: { readonly tried: Set<string>; inbox: FromMeasurer[]; gate: string } | null = null;
  // The agent's worker.
  #agent: { isPaused: boolean; gate: boolean } | null = null;
  #textsUnderWay = 0;
  #model: ModelWorker | null = null;
  #isAttached = false;
  #swapsDue = 0;
  #pausedBy = new Set<Pause>();

  constructor(seed: number) {
    this.#draw = drawing(seed);
    this.#target = this.#chance(0.7) ? "wasm" : "webgpu";
    const answered = { answer: this.#answer, origin: "https://zoo" } as Answered;
    const budgetMs = this.#chance(0.2) ? 300 : Number.POSITIVE_INFINITY;
    const terms = { target: this.#target, budgetMs, contributes: this.#chance(0.5) };
    if (this.#chance(0.5)) this.#wins.keep("product", this.#win("product.1"));
    this.state = initialState(answered, terms, this.#wins.avoided);
  }

  /** Has one thing happen. */
  live(): void {
    const [happens] = this.#some([
      () => this.#pageDoes(),
      () => this.#measurerDoes(),
      () => this.#measurerDoes(),
      () => this.#modelDoes(),
      () => this.#modelDoes(),
      () => this.#agentDoes(),
    ]);
    happens?.();
  }

  stop(): void {
    this.#isStopped = true;
    this.#take({ type: "stop" });
  }

  /** Lets all messages arrive that are under way, and swaps be answered. */
  settle(): void {
    for (let i = 0; i < 200; i++) {
      this.#deliverFromModel();
      if (this.#model?.swap) this.#answerSwap(this.#model, "swapped");
      this.#measurer?.inbox.splice(0);
      if (this.#swapsDue > 0) this.#swapIsDue();
    }
  }

  /** The kernels that the page believes to run, each with the one that does. */
  get kernels(): readonly (readonly [believed: string, running: string])[] {
    const { winners, answered } = this.state;
    return WORKLOADS.map((workload) => {
      const served = answered.answer.kernels[workload]?.kernel.sha256 as string;
      const believed = winners.get(workload)?.win.kernel.sha256 ?? served;
      return [believed, this.#model?.running.get(workload) ?? believed];
    });
  }

  /** The last word that the measurer has on whether it may work, and the word that it shall have. */
  get gate(): readonly [told: string | undefined, shall: string] {
    const rests = this.state.isBusy || this.#pausedBy.size > 0;
    return [this.#measurer?.gate, rests ? "rest" : "go"];
  }

  /** Ends the run that is under way and all pauses. */
  release(): void {
    this.#pausedBy.clear();
    this.#take({ type: "paused", by: new Set() });
    if (this.#model?.isBusy) this.#runs(false);
  }

  /** Has the measurer say nothing for as long as a page waits for it. */
  holdUp(): void {
    for (let i = 0; i < 8; i++) this.#ping(1_000);
  }

  get hasModel(): boolean {
    return this.#model !== null;
  }

  get measurer(): unknown {
    return this.#measurer;
  }

  #chance(share: number): boolean {
    return this.#draw() < share;
  }

  #pick<T>(all: readonly T[]): T {
    return all[Math.floor(this.#draw() * all.length)] as T;
  }

  #some<T>(all: readonly T[]): readonly T[] {
    return all.length === 0 ? [] : [this.#pick(all)];
  }

  #win(name: string) {
    const over = `${name.split(".")[0]}.zoo`;
    return { kernel: kernel(name), over, relativeTime: 0.9, at: 1 };
  }

  #take(event: TuningEvent): void {
    this.events.push(event.type);
    const [before, effects] = [this.state, step(this.state, event)];
    assert.deepEqual(step(before, event), effects, "a step depends on its state and event alone");
    this.state = effects[0];
    for (const effect of effects[1]) handle(this.#actions, effect);
    if (this.#isStopped) {
      assert.equal(tuningState(this.state), "done");
      assert.equal(this.#measurer, null, "nothing is measured after a stop");
      assert.equal(this.#agent, null, "nobody contributes after a stop");
    }
    if (this.#measurer !== null) assert.equal(...this.gate, "a gate is as the last event has it");
    if (this.#agent !== null) {
      assert.equal(this.#agent.gate, this.state.isBusy);
      assert.equal(this.#agent.isPaused, this.#pausedBy.size > 0);
    }
  }

  readonly #actions: Handlers<Effect> = {
    measure: ({ order }) => {
      assert.equal(this.#measurer, null, "two measurers at once");
      assert.ok(
        order.running.every(({ workload }) => workload !== "norm"),
        "it is confirmed",
      );
      const running = order.running.map(({ kernel }) => kernel.sha256);
      for (const lost of this.#barred) assert.ok(order.tried.includes(lost), `${lost} again`);
      this.#measurer = { tried: new Set([...order.tried, ...running]), inbox: [], gate: "" };
    },
    quit: () => {
      assert.notEqual(this.#measurer, null);
      this.#measurer = null;
    },
    "load-agent": () => {
      assert.equal(this.#isStopped, false);
      this.#textsUnderWay += 1;
    },
    "start-agent": () => {
      assert.equal(this.#agent, null, "two agents at once");
      this.#agent = { isPaused: false, gate: false };
    },
    withdraw: () => {
      assert.notEqual(this.#agent, null);
      this.#agent = null;
    },
    "tell-measurer": ({ message }) => {
      assert.notEqual(this.#measurer, null);
      if (this.#measurer === null) return;
      if (message.type === "go" || message.type === "rest") this.#measurer.gate = message.type;
      if (message.type === "running") this.#measurer.tried.add(message.lost);
    },
    "tell-model": ({ message }) => {
      if (message.type === "swap") this.#isAskedToSwap(message.swaps);
      else if (message.type === "take-back") this.#takesBack(message.workload, message.reason);
    },
    "tell-agent": ({ message }) => {
      assert.notEqual(this.#agent, null);
      if (this.#agent === null) return;
      if (message.type === "give-way") this.#agent.gate = message.busy;
      if (message.type === "pause") this.#agent.isPaused = true;
      if (message.type === "resume") this.#agent.isPaused = false;
    },
    "tell-swap": ({ swap }) => assert.ok(!this.#barred.has(swap.candidate)),
    "tell-regression": ({ regression }) => this.#barred.add(regression.candidate),
    keep: ({ workload, win }) => this.#wins.keep(workload, win),
    forget: ({ workloads }) => this.#wins.forget(workloads),
    avoid: ({ artifact }) => this.#wins.avoid(artifact),
    note: () => undefined,
    "time-plan": () => undefined,
    "time-swap": () => undefined,
    "time-before": () => undefined,
    postpone: () => {
      this.#swapsDue += 1;
    },
  };

  // The page and its visitor.

  #pageDoes(): void {
    if (this.#model === null) return void this.#spawns();
    const [does] = this.#some([
      () => this.#runs(!this.#model?.isBusy),
      () => this.#pauses(),
      () => this.#ping(this.#pick([1_000, 1_000, 10_000])),
      () => this.#ran(),
      () => this.#ran(),
      () => this.#swapsDue > 0 && this.#swapIsDue(),
      () => this.#textsUnderWay > 0 && this.#textArrives(),
      () => this.#chance(0.3) && this.#fails(),
      () => this.#chance(0.3) && this.#hangs(),
      () => this.#chance(0.3) && this.#terminates(),
      () => this.#chance(0.02) && this.#take({ type: "measurer-failed" }),
    ]);
    does?.();
  }

  #spawns(): void {
    this.#take({ type: "spawned" });
    if (this.#chance(0.1)) this.#answer = answerOf(planOf());
    const trusted = this.#wins.trusted(this.#answer);
    for (const [workload] of trusted) assert.ok(WORKLOADS.includes(workload));
    this.#take({ type: "loads", answer: this.#answer, trusted });
    const { kernels } = answerWithTrusted(this.state);
    const running = WORKLOADS.map((key) => [key, kernels[key]?.kernel.sha256 as string] as const);
    this.#model = {
      ...{ running: new Map(running), before: new Map(), swap: null, isBusy: false, inbox: [] },
    };
    if (trusted.length > 0 && this.#chance(0.1)) {
      this.#take({ type: "refused" });
      for (const workload of WORKLOADS) this.#model.running.set(workload, `${workload}.zoo`);
    }
    this.#take({ type: "loaded" });
    // The zoo's kernels run beside those of earlier visits.
    for (const [workload] of this.state.trusted) {
      this.#model.before.set(workload, `${workload}.zoo`);
    }
    if (!this.#isAttached) this.#take({ type: "attached" });
    this.#isAttached = true;
  }

  #runs(isBusy: boolean): void {
    if (this.#model !== null) this.#model.isBusy = isBusy;
    this.#take({ type: "runs", isBusy });
  }

  #pauses(): void {
    const reason = this.#pick<Pause>(["hidden", "battery", "pressure"]);
    if (!this.#pausedBy.delete(reason)) this.#pausedBy.add(reason);
    this.#take({ type: "paused", by: new Set(this.#pausedBy) });
  }

  #ping(afterMs: number): void {
    this.#nowMs += afterMs;
    this.#take({ type: "ping", nowMs: this.#nowMs });
  }

  #ran(): void {
    const slower = this.#chance(0.3) ? this.#some(WORKLOADS) : [];
    this.#take({ type: "ran", slower, ms: {} });
  }

  #swapIsDue(): void {
    this.#swapsDue -= 1;
    this.#take({ type: "swap-due" });
  }

  #textArrives(): void {
    this.#textsUnderWay -= 1;
    this.#take({ type: "agent-loaded", text: "" });
  }

  /** A run fails with a kernel that runs, and the page opens its model anew. */
  #fails(): void {
    const workload = this.#pick(WORKLOADS);
    const artifact = this.#model?.running.get(workload) as string;
    const fault = { workload, artifact, message: "It traps." };
    const failure = { stage: "run", message: "It traps.", fault } as unknown as Failure;
    const isAvoided = isAtFault(this.state, failure);
    this.#take({ type: "failed", failure });
    if (isAvoided) assert.ok(this.#wins.avoided.includes(artifact));
    this.#terminates();
  }

  #hangs(): void {
    if (suspects(this.state).length === 0) return;
    this.#take({ type: "hangs" });
    this.#terminates();
  }

  #terminates(): void {
    this.#model = null;
    this.#take({ type: "terminated" });
    if (this.#target === "webgpu" && this.#chance(0.3)) this.#take({ type: "gpu-lost" });
  }

  // The measurer.

  #measurerDoes(): void {
    const measurer = this.#measurer;
    if (measurer === null) return;
    if (measurer.inbox.length > 0 && this.#chance(0.6)) {
      const message = measurer.inbox.shift() as FromMeasurer;
      return void this.#take({ type: "measurer", message });
    }
    const workload = this.#pick(["product", "sum"]);
    const names = Array.from({ length: CANDIDATES }, (_, i) => `${workload}.${i}`);
    const open = names.filter((name) => !measurer.tried.has(name));
    const [artifact] = this.#some(open);
    if (this.#chance(0.05)) {
      const complete = this.#chance(0.8);
      measurer.inbox.push({ type: "ended", reason: "There are no more.", complete });
    } else if (artifact !== undefined) {
      const relativeTime = this.#chance(0.2) ? null : 0.5 + this.#draw();
      measurer.tried.add(artifact);
      measurer.inbox.push({ type: "trying", artifact });
      if (this.#chance(0.2)) return;
      measurer.inbox.push({ type: "measured", artifact, relativeTime });
      if (relativeTime !== null && relativeTime < 1) {
        const winner = { workload, kernel: kernel(artifact), relativeTime };
        // Others of its row, and the kernel that it believes to run.
        const runnersUp = [this.#pick(names), this.#pick(names), `${workload}.zoo`];
        measurer.inbox.push({ type: "found", winner, runnersUp });
      }
      measurer.inbox.push({ type: "spent", ms: 20 });
    } else measurer.inbox.push({ type: "pong" });
  }

  // The model's worker.

  #isAskedToSwap(swaps: readonly Winner[]): void {
    if (this.#model === null) return;
    assert.equal(this.#model.swap, null, "a swap while one is under way");
    const workloads = swaps.map(({ workload }) => workload);
    assert.equal(new Set(workloads).size, workloads.length);
    for (const { kernel } of swaps) {
      assert.ok(!this.#barred.has(kernel.sha256), `${kernel.sha256} was taken back`);
    }
    this.#model.swap = swaps;
  }

  #takesBack(workload: string, reason: string): void {
    const model = this.#model;
    const again = model?.before.get(workload);
    if (model === null || again === undefined) return;
    model.before.delete(workload);
    model.running.set(workload, again);
    model.inbox.push({ type: "regression", workload, reason, again });
  }

  #answerSwap(model: ModelWorker, how: "swapped" | "postponed"): void {
    const swaps = model.swap as readonly Winner[];
    if (how === "postponed") model.inbox.push({ type: "postponed", reason: "It is away." });
    else {
      const refused = swaps.map(() => (this.#chance(0.3) ? "It is wrong." : null));
      for (const [i, { workload, kernel }] of swaps.entries()) {
        if (refused[i] !== null) continue;
        const running = model.running.get(workload) as string;
        if (!model.before.has(workload)) model.before.set(workload, running);
        model.running.set(workload, kernel.sha256);
      }
      model.inbox.push({ type: "swapped", refused });
    }
  }

  #modelDoes(): void {
    const model = this.#model;
    if (model === null) return;
    if (model.inbox.length > 0 && this.#chance(0.6)) return void this.#deliverFromModel();
    const isAnswered = model.inbox.some(({ type }) => type !== "regression");
    if (model.swap !== null && !isAnswered) {
      return void this.#answerSwap(model, this.#chance(0.8) ? "swapped" : "postponed");
    }
    if (this.#chance(0.2)) this.#takesBack(this.#pick(WORKLOADS), "It is wrong.");
  }

  #deliverFromModel(): void {
    const message = this.#model?.inbox.shift();
    if (message === undefined) return;
    const isAnswer = message.type === "swapped" || message.type === "postponed";
    if (message.type === "swapped") {
      for (const [i, { kernel }] of (this.#model?.swap ?? []).entries()) {
        if (message.refused[i] !== null) this.#barred.add(kernel.sha256);
      }
    }
    if (isAnswer && this.#model !== null) this.#model.swap = null;
    this.#nowMs += 1;
    this.#take({ type: "model", message, atMs: this.#nowMs });
  }

  // The agent's worker.

  #agentDoes(): void {
    if (this.#agent === null) return;
    const messages: FromAgent[] = [
      { type: "event", event: { type: "idle" } },
      { type: "event", event: { type: "error", message: "It is away.", retryInMs: 1 } },
      { type: "sent", request: { method: "POST", path: "/v1/leases", body: "" } },
      { type: "spent", ms: 10 },
      { type: "rank", workload: "product", finalists: [] },
    ];
    const [message] = this.#some(messages);
    if (message !== undefined) this.#take({ type: "agent", message });
  }
}

const SEEDS = 400;
const EVENTS = 150;

/** Lives `work` through many lives, and says in which one it went wrong. */
function inManyLives(work: (world: World) => void): void {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = new World(seed);
    try {
      for (let i = 0; i < EVENTS; i++) world.live();
      work(world);
    } catch (thrown) {
      (thrown as Error).message += ` (seed ${seed}: ${world.events.slice(-12).join(", ")})`;
      throw thrown;
    }
  }
}

test("whatever happens, nothing is measured, swapped or contributed twice at once, and what was taken back stays away", () => {
  const seen = { swaps: 0, regressions: 0, measured: 0, contributed: 0 };
  inManyLives(({ state }) => {
    seen.swaps += state.swaps.length;
    seen.regressions += state.barred.size;
    seen.measured += state.measured;
    seen.contributed += state.agent === "working" ? 1 : 0;
  });
  // The lives were worth looking at.
  for (const [what, count] of Object.entries(seen)) assert.ok(count > SEEDS / 20, what);
});

test("once all messages have arrived no swap is left, and the page knows which kernels run", () => {
  inManyLives((world) => {
    world.settle();
    for (const pair of world.kernels) assert.equal(...pair);
    const { unswapped, swapping } = world.state;
    if (world.hasModel) assert.deepEqual([unswapped, swapping], [[], []]);
  });
});

test("every gate that was closed opens again", () => {
  let opened = 0;
  inManyLives((world) => {
    world.release();
    const [told, shall] = world.gate;
    assert.equal(shall, "go");
    if (told === undefined) return;
    assert.equal(told, "go");
    opened += 1;
  });
  assert.ok(opened > SEEDS / 20);
});

test("a measurer that says nothing any more gives way to another, or measuring ends", () => {
  inManyLives((world) => {
    const { measurer } = world;
    world.holdUp();
    if (measurer !== null) assert.notEqual(world.measurer, measurer);
  });
});

test("measuring ends when it is told to stop, whatever happens thereafter", () => {
  inManyLives((world) => {
    world.stop();
    const { measured, spentMs, requests, end } = world.state;
    for (let i = 0; i < EVENTS; i++) world.live();
    const after = world.state;
    assert.deepEqual(
      [after.measured, after.spentMs, after.requests, after.end?.reason],
      [measured, spentMs, requests, end?.reason],
    );
  });
});
