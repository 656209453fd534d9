/** Version of the suite in modules.ts, which most page loads do not need. */
export const SUITE = 3;

/**
 * The ρ of most devices: loads that splat and packing pay, and fused sums gain less than their
 * margin.
 */
export const USUAL_RHO = `r${SUITE}-011`;
