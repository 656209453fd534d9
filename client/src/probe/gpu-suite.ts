/** Version of the suite in gpu-modules.ts, which gpu-run.ts runs. */
export const GPU_SUITE = 102;
