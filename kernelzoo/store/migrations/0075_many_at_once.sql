-- What is asked of a model's hundreds of workloads is asked of all of them at once.
CREATE INDEX candidate_space ON candidate (workload_key, target)
    INCLUDE (candidate_id, state, requires, artifact_sha256, compiled_at);
COMMENT ON INDEX candidate_space IS
    'For what a class can run of the workloads of a model, which is asked of thousands of candidates '
    'at once: their rows are wide, and it has what is asked of them.';
DROP INDEX candidate_workload;

CREATE FUNCTION servable(workload_keys text[], device_class text, space text)
    RETURNS TABLE (workload_key text, candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT c.workload_key, c.candidate_id, c.config FROM candidate c
    WHERE c.workload_key = ANY ($1) AND c.target = target_of($2) AND c.state = 'compiled'
      -- So PostgreSQL expects half of them, where of <@ alone it expects 1 in 200.
      AND (c.requires <@ features_of($2)) IS DISTINCT FROM false
      AND c.artifact_sha256 NOT IN (
        SELECT d.artifact_sha256 FROM denied d WHERE d.device_class = $2 AND d.denied)
      -- As a value, which is hashed: joined, each candidate is looked up by its id. And an array,
      -- or the points of all jobs are read.
      AND (c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j
        CROSS JOIN LATERAL unnest(ARRAY(
            SELECT p.candidate_id FROM space_point p WHERE p.job_id = j.id)) AS p (candidate_id)
        WHERE j.workload_key = ANY ($1) AND j.target = target_of($2) AND j.space IN ($3, 'any')
      )) IS TRUE
$$;
COMMENT ON FUNCTION servable(text[], text, text) IS
    'Kernels of these workloads that a page of this device class can be given on the word of others: '
    'compiled, within its features, not denied to it, and of its space or that of any GPU.';

CREATE OR REPLACE FUNCTION servable(workload_key text, device_class text, space text)
    RETURNS TABLE (candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT s.candidate_id, s.config FROM servable(ARRAY[$1], $2, $3) s
$$;
COMMENT ON FUNCTION servable(text, text, text) IS
    'For gateways and workers of the version before 0075, which serve while the database is upgraded.';

-- The times of keys of which nobody measures anything are not looked for among all measurements.
CREATE OR REPLACE FUNCTION reference_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY recent.best_ns)
    FROM (
        SELECT latest.best_ns FROM candidate c
        CROSS JOIN LATERAL (
            SELECT m.created_at, (SELECT min(ns) FROM unnest(m.reference_ns) ns) AS best_ns
            FROM measurement m
            WHERE m.candidate_id = c.candidate_id AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
            ORDER BY m.created_at DESC LIMIT 8
        ) latest
        WHERE c.workload_key = $1 AND c.target = target_of($2)
          -- Most keys are of classes that pages are of, and nobody measures.
          AND EXISTS (
            SELECT FROM tuning_job j JOIN job_progress p ON p.job_id = j.id
            WHERE j.workload_key = $1 AND p.device_class = $2)
        ORDER BY latest.created_at DESC LIMIT 64
    ) recent
$$;
