-- An identity that reports what it borrowed at one time in several reports was counted with each. What
-- is asked of a candidate's measurements names the condition of their index.

CREATE OR REPLACE FUNCTION count_measurements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added record;
    rounds bigint;
    fastest double precision;
    since timestamptz;
BEGIN
    FOR added IN
        SELECT r.job_id, r.device_class, min(l.created_at) AS begun_at,
               max(r.created_at) AS last_at, min(r.best_ns) AS best_ns,
               count(*) FILTER (WHERE r.outcome = 'ok') AS ok,
               count(*) FILTER (WHERE r.outcome = 'validate') AS validate,
               count(*) FILTER (WHERE r.outcome = 'compile') AS compile,
               count(*) FILTER (WHERE r.outcome = 'run') AS run,
               count(*) FILTER (WHERE r.outcome = 'compare') AS compare,
               count(*) FILTER (WHERE r.outcome = 'timeout') AS timeout
        FROM reported r JOIN lease l ON l.id = r.lease_id
        WHERE r.job_id IS NOT NULL
        GROUP BY r.job_id, r.device_class ORDER BY r.job_id, r.device_class
    LOOP
        INSERT INTO job_progress (job_id, device_class) VALUES (added.job_id, added.device_class)
        ON CONFLICT DO NOTHING;
        -- Those of one class take turns from here on, so that each sees what the others counted.
        SELECT p.ok + p.validate + p.compile + p.run + p.compare + p.timeout + p.rejected,
               coalesce(p.begun_at, added.begun_at)
        INTO rounds, since FROM job_progress p
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class FOR UPDATE;
        SELECT i.best_ns INTO fastest FROM improvement i
        WHERE i.job_id = added.job_id AND i.device_class = added.device_class
        ORDER BY i.round DESC LIMIT 1;
        INSERT INTO improvement
            (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
        SELECT added.job_id, added.device_class, rounds + place,
               extract(epoch FROM created_at - since), best_ns, lease_id, candidate_id
        FROM (
            SELECT r.*, row_number() OVER made AS place,
                   min(r.best_ns) OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                       AS before_ns
            FROM reported r
            WHERE r.job_id = added.job_id AND r.device_class = added.device_class
            WINDOW made AS (ORDER BY r.created_at, r.candidate_id, r.lease_id)
        ) found
        WHERE best_ns < coalesce(least(fastest, before_ns), 'infinity');
        UPDATE job_progress p
        SET agents = p.agents + (
                SELECT count(DISTINCT r.identity_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM space_point s
                    JOIN measurement m ON m.candidate_id = s.candidate_id
                    WHERE s.job_id = p.job_id AND m.identity_id = r.identity_id
                      AND m.device_class = p.device_class
                      AND (m.lease_id, m.candidate_id) NOT IN (
                        SELECT lease_id, candidate_id FROM reported))),
            candidates = p.candidates + (
                SELECT count(DISTINCT r.candidate_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM measurement m
                    WHERE m.candidate_id = r.candidate_id AND m.device_class = p.device_class
                      AND m.lease_id > 0 AND m.lease_id NOT IN (SELECT lease_id FROM reported))),
            ok = p.ok + added.ok, validate = p.validate + added.validate,
            compile = p.compile + added.compile, run = p.run + added.run,
            compare = p.compare + added.compare, timeout = p.timeout + added.timeout,
            best_ns = least(p.best_ns, added.best_ns), begun_at = since,
            last_at = greatest(p.last_at, added.last_at)
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class;
    END LOOP;
    RETURN NULL;
END
$$;

-- Counted anew where every measurement that was counted is still there; else the count stays as it
-- is, as what was removed for its age or erased names nobody.
UPDATE job_progress p SET agents = there.agents
FROM (
    SELECT l.job_id, m.device_class, count(DISTINCT m.identity_id) AS agents,
           count(*) AS measurements
    FROM measurement m JOIN lease l ON l.id = m.lease_id
    GROUP BY l.job_id, m.device_class
) there
WHERE p.job_id = there.job_id AND p.device_class = there.device_class
  AND p.agents > there.agents
  AND p.ok + p.validate + p.compile + p.run + p.compare + p.timeout + p.rejected
      = there.measurements;
