/**
 * Entry of the module that a page loads with a model that it will run few times, as it says. The
 * model begins with the kernels that cost least for so many runs. Once it has run, and where more
 * runs are to come, the kernels that are the fastest when they are warm take their place one at a
 * time, while no run waits.
 */
import type { Host } from "../model/host.js";
import type { Spawn } from "../model/opener.js";
import type { Answered } from "../model/request.js";
import { choose, withChoice } from "../model/run-count-choice.js";
import type { ModelAnswer } from "../wire/model-answer.js";
import type { MeasuredTarget, ServedKernel } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import type { FromTuned, Winner } from "./messages.js";
import type { TuneOptions } from "./page-view.js";
import type { Tunable, Tuned } from "./tuner.js";
import { WatchedRuntime } from "./watched-worker.js";

/** Without a run for so long, the next kernel is prepared. */
const IDLE_MS = 50;

interface Switch {
  readonly winner: Winner;
  readonly cold: ServedKernel;
  readonly warm: ServedKernel;
}

/**
 * Lists the workloads that run a kernel which was chosen for few runs and is not the fastest when
 * warm, first those where the fastest saves most of an inference.
 */
function switchesOf(answer: ModelAnswer, chosen: ModelAnswer): Switch[] {
  const { calls, kernels } = answer.plan;
  const saves = ({ winner: { workload }, cold, warm }: Switch): number =>
    calls.filter(({ kernel }) => kernels[kernel] === workload).length *
    ((cold.costs?.run_ns ?? 0) - (warm.costs?.run_ns ?? 0));
  return Object.entries(answer.kernels)
    .flatMap(([workload, warm]) => {
      const cold = chosen.kernels[workload] as ServedKernel;
      if (cold === warm || !cold.costs || !warm.costs) return [];
      const relativeTime = warm.costs.run_ns / cold.costs.run_ns;
      return [{ winner: { workload, kernel: warm.kernel, relativeTime }, cold, warm }];
    })
    .sort((a, b) => saves(b) - saves(a));
}

/** Owns which kernels of a model are still to be switched. */
class FewRuns implements Tuned {
  /** Its kernels are those that run. */
  readonly answered: Answered;
  readonly #target: MeasuredTarget;
  readonly #runs: number;
  readonly #source: string;
  readonly #plain: Spawn;
  readonly #kernels: Record<string, ServedKernel>;
  #waiting: Switch[];
  #switching: Switch | null = null;
  readonly #cold = new Map<string, ServedKernel>();
  #model: Tunable | null = null;
  #runtime: WatchedRuntime | null = null;
  #asked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    answered: Answered,
    target: MeasuredTarget,
    runs: number,
    source: string,
    plain: Spawn,
  ) {
    const { answer } = answered;
    const chosen = withChoice(answer, choose(answer, runs));
    this.#kernels = { ...chosen.kernels };
    this.answered = { ...answered, answer: { ...chosen, kernels: this.#kernels } };
    this.#waiting = switchesOf(answer, chosen);
    this.#target = target;
    this.#runs = runs;
    this.#source = source;
    this.#plain = plain;
  }

  readonly spawn: Spawn = (target, source) => {
    this.#stop();
    if (target !== this.#target || this.#waiting.length === 0) return this.#plain(target, source);
    this.#runtime = new WatchedRuntime(this.#source, {
      loads: () => this.answered.answer,
      runs: () => this.#look(),
      told: (message) => this.#told(message),
      ended: () => this.#stop(),
    });
    return this.#runtime;
  };

  attach(model: Tunable): void {
    this.#model = model;
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#runtime = null;
    if (this.#switching !== null) this.#waiting.unshift(this.#switching);
    this.#switching = null;
  }

  /** A run was asked for, or none is under way any more. */
  #look(): void {
    clearTimeout(this.#timer);
    if (this.#runtime?.busy === true) this.#asked += 1;
    else this.#switchWhenIdle();
  }

  #switchWhenIdle(): void {
    const more = this.#runs > 1 || this.#asked > this.#runs;
    if (!more || this.#switching !== null || this.#runtime?.busy !== false) return;
    this.#timer = setTimeout(() => {
      this.#switching = this.#waiting.shift() ?? null;
      if (this.#switching === null) return;
      this.#runtime?.tell({ type: "swap", swaps: [this.#switching.winner] });
    }, IDLE_MS);
  }

  #told(message: FromTuned): void {
    if (message.type === "swapped") {
      const { winner, cold, warm } = this.#switching as Switch;
      this.#switching = null;
      if (message.refused[0] === null) {
        const { workload, kernel, relativeTime } = winner;
        this.#kernels[workload] = warm;
        this.#cold.set(workload, cold);
        const before = cold.kernel.candidate;
        const swap = { workload, candidate: kernel.candidate, before, relativeTime };
        this.#model?.tell("swap", { ...swap, since: new Date() });
      }
      this.#switchWhenIdle();
    } else if (message.type === "postponed") {
      this.#waiting.unshift(this.#switching as Switch);
      this.#switching = null; // It is tried again after the next run.
    } else if (message.type === "regression") this.#regressed(message);
  }

  #regressed({ workload, reason }: Extract<FromTuned, { type: "regression" }>): void {
    const { candidate } = (this.#kernels[workload] as ServedKernel).kernel;
    this.#kernels[workload] = this.#cold.get(workload) as ServedKernel;
    this.#model?.tell("regression", { workload, candidate, reason });
  }
}

/** `plain` starts the worker of a model whose kernels stay. */
export async function tuned(
  _: Host,
  answered: Answered,
  target: MeasuredTarget,
  { runs = 1 }: TuneOptions,
  plain: Spawn,
): Promise<Tuned> {
  const source = (await WORKERS.tuned[target]()).default;
  return new FewRuns(answered, target, runs, source, plain);
}
