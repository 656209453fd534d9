import type { FinalAnswer } from "../gateway/retry.js";
import type { MeasurementWire } from "../wire/types.js";

export interface ReportPorts {
  send(batch: readonly MeasurementWire[]): Promise<FinalAnswer<unknown>>;
  accepted(measurement: MeasurementWire): void;
  refused(detail: string): void;
}

/** The most measurements that one report may hold. */
const BATCH = 16;
/** The lease is unknown or over; nothing more of it will be taken. */
const LEASE_OVER = new Set([404, 410]);

/**
 * Sends measurements while the next are made: at once when nothing is on its way, else together
 * with what follows. One queue for each lease.
 */
export class ReportQueue {
  readonly #ports: ReportPorts;
  #pending: readonly MeasurementWire[] = [];
  #sending: Promise<void> | null = null;
  #over = false;

  constructor(ports: ReportPorts) {
    this.#ports = ports;
  }

  /** True once the gateway has said that the lease is over. */
  get over(): boolean {
    return this.#over;
  }

  add(measurement: MeasurementWire): void {
    this.#pending = [...this.#pending, measurement];
    this.#sending ??= this.#drain();
    // Whoever awaits `settled` sees the failure.
    this.#sending.catch(() => undefined);
  }

  /** Resolves once everything is answered; rejects when sending was aborted. */
  async settled(): Promise<void> {
    await this.#sending;
  }

  async #drain(): Promise<void> {
    while (this.#pending.length > 0 && !this.#over) {
      const batch = this.#pending.slice(0, BATCH);
      this.#pending = this.#pending.slice(BATCH);
      this.#settle(batch, await this.#ports.send(batch));
    }
    this.#sending = null;
  }

  #settle(batch: readonly MeasurementWire[], answer: FinalAnswer<unknown>): void {
    switch (answer.kind) {
      case "ok":
      case "empty":
        for (const measurement of batch) this.#ports.accepted(measurement);
        return;
      case "refused":
        this.#over = LEASE_OVER.has(answer.status);
        this.#ports.refused(answer.detail);
        return;
      default:
        answer satisfies never;
    }
  }
}
