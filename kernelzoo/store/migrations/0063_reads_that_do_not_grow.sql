-- What is asked of a candidate's measurements on a class is answered by an index alone, and a page's
-- kernels are found by their workload and in their order, not by looking up every candidate.

DROP INDEX measurement_candidate;
ALTER INDEX measurement_candidate_new RENAME TO measurement_candidate;
COMMENT ON INDEX measurement_candidate IS
    'For those of a candidate on a class, which lie scattered over the whole table: it has what is '
    'asked of them. Its condition, which all meet, keeps it from questions that do not name it: those '
    'for one identity would begin with everybody''s.';
DROP INDEX measurement_failed;
ALTER INDEX measurement_failed_new RENAME TO measurement_failed;

CREATE OR REPLACE FUNCTION tried(candidate_id text, device_class text)
    RETURNS TABLE (identity_id uuid, lease_id bigint, outcome text, created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT m.identity_id, m.lease_id, m.outcome, m.created_at FROM measurement m
    WHERE m.candidate_id = $1 AND m.device_class = $2
      AND m.verdict = 'verified' AND m.lease_id > 0
    UNION ALL
    (SELECT m.identity_id, m.lease_id, m.outcome, m.created_at
     FROM lease l JOIN measurement m ON m.lease_id = l.id
     WHERE l.device_class = $2 AND l.reference_id = $1
       AND m.outcome = 'ok' AND m.verdict = 'verified'
     ORDER BY l.id DESC LIMIT 4096)
$$;

CREATE OR REPLACE FUNCTION default_kernel(workload_key text, device_class text)
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, coalesce(first.candidate_id, last.candidate_id), coalesce(first.state, last.state)
    FROM tuning_job j
    -- A space in the order of promise, so that its first that fits is found before the others are
    -- looked up.
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM (SELECT p.candidate_id, p.ordinal FROM space_point p
              WHERE p.job_id = j.id ORDER BY p.ordinal) p
        JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE c.state <> 'failed'
          AND c.requires <@ features_of($2)
          AND NOT EXISTS (
            SELECT FROM denied d
            WHERE d.artifact_sha256 = c.artifact_sha256 AND d.denied
              AND (d.device_class = $2 OR d.device_wide
                   AND d.device_id = device_id_of($2)))
        ORDER BY p.ordinal LIMIT 1
    ) first ON true
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM (SELECT p.candidate_id, p.ordinal FROM space_point p
              WHERE p.job_id = j.id ORDER BY p.ordinal) p
        JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE first.candidate_id IS NULL AND c.state <> 'failed'
          AND c.requires <@ features_of($2)
          AND NOT is_denied(c.candidate_id, $2)
        ORDER BY p.ordinal LIMIT 1
    ) last ON true
    WHERE j.workload_key = $1 AND j.target = target_of($2) AND j.state = 'planned'
      AND j.space IN ('any', space_of(target_of($2), device_id_of($2)))
      AND coalesce(first.candidate_id, last.candidate_id) IS NOT NULL
    ORDER BY coalesce(first.state, last.state) <> 'compiled', j.space = 'any' LIMIT 1
$$;

CREATE OR REPLACE FUNCTION kernel_time(candidate_id text, device_class text)
    RETURNS TABLE (best_ns double precision, identities bigint) LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY best), count(*)
    FROM (
        SELECT min(latest.best_ns) AS best FROM (
            SELECT m.identity_id, m.best_ns FROM measurement m
            WHERE m.candidate_id = $1 AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
            ORDER BY m.created_at DESC LIMIT 64
        ) latest
        GROUP BY latest.identity_id
    ) AS by_identity
$$;

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
        ORDER BY latest.created_at DESC LIMIT 64
    ) recent
$$;

CREATE OR REPLACE FUNCTION servable(workload_key text, device_class text, space text)
    RETURNS TABLE (candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT c.candidate_id, c.config FROM candidate c
    WHERE c.workload_key = $1 AND c.target = target_of($2)
      AND c.state = 'compiled' AND c.requires <@ features_of($2)
      AND NOT EXISTS (
        SELECT FROM denied d
        WHERE d.artifact_sha256 = c.artifact_sha256 AND d.device_class = $2 AND d.denied)
      AND c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j JOIN space_point p ON p.job_id = j.id
        WHERE j.workload_key = $1 AND j.target = target_of($2)
          AND j.space IN ($3, 'any'))
$$;

CREATE OR REPLACE FUNCTION count_refused() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    progress job_progress;
    refused improvement;
BEGIN
    SELECT * INTO progress FROM job_progress p
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF progress.best_ns >= NEW.best_ns THEN
        UPDATE job_progress p SET best_ns = (
            SELECT min(m.best_ns) FROM space_point s
            JOIN measurement m ON m.candidate_id = s.candidate_id
            WHERE s.job_id = p.job_id AND m.device_class = p.device_class
              AND m.verdict IN ('pending', 'verified') AND m.lease_id > 0)
        WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    END IF;
    IF NEW.verdict <> 'rejected' THEN
        RETURN NULL;
    END IF;
    UPDATE job_progress p
    SET rejected = p.rejected + 1, ok = p.ok - (NEW.outcome = 'ok')::integer
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
      AND i.lease_id = NEW.lease_id AND i.candidate_id = NEW.candidate_id
    RETURNING * INTO refused;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- What it was faster than may have been an improvement without it.
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class AND i.round > refused.round;
    INSERT INTO improvement (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
    SELECT NEW.job_id, NEW.device_class, refused.round + place,
           extract(epoch FROM created_at - progress.begun_at), best_ns, lease_id, candidate_id
    FROM (
        SELECT m.*, row_number() OVER made AS place,
               min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                   OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
        FROM space_point s JOIN measurement m ON m.candidate_id = s.candidate_id
        WHERE s.job_id = NEW.job_id AND m.device_class = NEW.device_class AND m.lease_id > 0
          AND (m.created_at, m.candidate_id, m.lease_id)
              > (NEW.created_at, NEW.candidate_id, NEW.lease_id)
        WINDOW made AS (ORDER BY m.created_at, m.candidate_id, m.lease_id)
    ) later
    WHERE verdict <> 'rejected' AND best_ns < coalesce(least(before_ns, (
        SELECT i.best_ns FROM improvement i
        WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
        ORDER BY i.round DESC LIMIT 1)), 'infinity');
    RETURN NULL;
END
$$;
