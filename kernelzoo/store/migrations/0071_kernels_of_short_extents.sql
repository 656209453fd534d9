-- A plan of a range has kernels that only runs of short extents call.

ALTER TABLE model_workload
    DROP CONSTRAINT model_workload_calls_check,
    ADD CONSTRAINT model_workload_calls_check CHECK (calls >= 0);
COMMENT ON TABLE model_workload IS
    'The kernels of a plan in its order, and how often an inference of its largest extents calls each: 0 for kernels of shorter ones.';
