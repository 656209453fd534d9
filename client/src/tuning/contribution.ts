/** The page as an agent of the zoo, with the agent's own worker. Loaded where a site asks for it. */
import type { AgentEvent, Finalist, FromWorker, ToWorker } from "../agent/messages.js";
import type { Pause } from "../agent/pauses.js";
import type { SentRequest } from "../agent/request-log.js";
import { type Notebook, storedNotes } from "../device/notebook.js";
import { workerOf } from "../engine/page-worker.js";
import type { MeasuredTarget } from "../wire/types.js";

export interface ContributingPorts {
  readonly notes: Notebook;
  readonly sent: (request: SentRequest) => void;
  readonly spent: (ms: number) => void;
  /** Tells whether the agent has work. */
  readonly works: (works: boolean) => void;
  /**
   * Tells of a candidate that the agent measured, with its time over that of the default kernel;
   * null where it failed.
   */
  readonly measured: (workload: string, candidate: string, relativeTime: number | null) => void;
  /** Asks for what finalists take in whole tokens; `ranked` answers. */
  readonly rank: (workload: string, finalists: readonly Finalist[]) => void;
  readonly waiting: (message: string) => void;
}

export class Contributing {
  readonly #worker: Worker;
  readonly #ports: ContributingPorts;

  /**
   * `text` is the source of the agent's worker. `workloads` begin with those in which most time may
   * be won. `inTokens` are the workloads whose finalists the page can time in whole tokens.
   */
  constructor(
    text: string,
    origin: string,
    target: MeasuredTarget,
    application: string | null,
    workloads: readonly string[],
    inTokens: readonly string[],
    leftMs: number,
    ports: ContributingPorts,
  ) {
    this.#ports = ports;
    this.#worker = workerOf(text, "kernelzoo agent");
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#heard(data);
    this.#worker.onerror = () => {
      ports.works(false);
      ports.waiting("The agent's worker does not start.");
    };
    this.#post({
      type: "start",
      options: {
        origin,
        targets: [target],
        workloads: workloads.slice(0, MOST_WORKLOADS),
        inTokens,
        beside: true,
        application,
        openedAt: performance.timeOrigin,
        operatorKey: null,
        hostTurns: false,
        // The site has asked its visitor.
        approved: true,
        allowed: { leftMs, share: 1 },
        notes: storedNotes(),
      },
    });
  }

  giveWay(busy: boolean): void {
    this.#post({ type: "give-way", busy });
  }

  ranked(times: readonly number[] | null): void {
    this.#post({ type: "ranked", times });
  }

  pause(why: Pause | null): void {
    this.#post(why === null ? { type: "resume" } : { type: "pause", why });
  }

  stop(): void {
    this.#worker.terminate();
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #heard(data: FromWorker): void {
    if (data.type === "sent") this.#ports.sent(data.request);
    else if (data.type === "spent") this.#ports.spent(data.ms);
    else if (data.type === "note") this.#ports.notes.write(data.key, data.value);
    else if (data.type === "rank") this.#ports.rank(data.workload, data.finalists);
    else if (data.type === "event") this.#told(data.event);
  }

  #told(event: AgentEvent): void {
    const { works, measured, waiting } = this.#ports;
    if (event.type === "lease") works(true);
    else if (event.type === "idle") works(false);
    else if (event.type === "measured") {
      measured(event.workload, event.candidate, event.relativeTime);
    } else if (event.type === "error" || event.type === "refused") {
      works(false);
      waiting(event.type === "error" ? event.message : event.reason);
    }
  }
}

/** The most workloads that a request for a lease may name. */
const MOST_WORKLOADS = 64;
