/** Version of the suite in gpu-modules.ts, which is only fetched when the probe runs. */
export const GPU_SUITE = 102;
