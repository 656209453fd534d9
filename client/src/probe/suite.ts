/** Version of the suite in modules.ts, which most page loads do not need. */
export const SUITE = 3;

/** What most devices have: loads that splat and packing pay, and fused sums gain less than margins. */
export const USUAL_RHO = `r${SUITE}-011`;
