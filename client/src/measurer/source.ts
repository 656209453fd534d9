/** The loop of whoever measures: work comes from a source, which is told of what fails. */
import { backoffMs } from "../gateway/request.js";

/** Leases of a zoo, or candidates of a model's stream. */
export interface WorkSource<Work> {
  /** Answers what to measure next; null where nothing comes any more. May reject to end the loop. */
  next(): Promise<Work | null>;
  measure(work: Work): Promise<void>;
  /** Tells of what was thrown, waits for so long, and answers whether to go on. */
  failed(work: Work, thrown: unknown, retryInMs: number): Promise<boolean>;
}

/**
 * Measures what comes until nothing does. What is thrown costs one piece of work and a wait, which
 * grows with each failure in a row.
 */
export async function measureFrom<Work>(source: WorkSource<Work>): Promise<void> {
  for (let failures = 0; ; ) {
    const work = await source.next();
    if (work === null) return;
    try {
      await source.measure(work);
      failures = 0;
    } catch (thrown) {
      if (!(await source.failed(work, thrown, backoffMs(failures++)))) return;
    }
  }
}
