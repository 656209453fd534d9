/** What an agent's instrument is given, where nobody lends. */

import type { Running } from "../tuning/messages.js";
import type { Lease } from "../wire/types.js";

/** Below 2^31; no kernel can know the inputs that it will be compared on. */
const seed = (): number => (crypto.getRandomValues(new Uint32Array(1))[0] as number) >>> 1;

/** The kernel that runs is the reference. */
export const leaseOf = ({ workload, kernel, tolerance }: Running): Lease => ({
  ...{ workload, tolerance, reference: kernel, candidates: [], measured: [], seed: seed() },
  ...{ lease: "", nonce: "", expires_in_s: 0, flops: 0, unmeasured: 0, complete: false },
});
