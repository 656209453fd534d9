-- The defaults of a space are compiled before any other candidate of any space.

ALTER TABLE candidate ADD COLUMN is_default boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN candidate.is_default IS
    'Whether some class of devices is given it while nothing is known of it (default_candidates). It '
    'is compiled first.';
CREATE INDEX candidate_default_waiting ON candidate (requeued_at)
    WHERE state = 'waiting' AND is_default;

CREATE FUNCTION default_candidates(job_id bigint) RETURNS TABLE (candidate_id text)
    LANGUAGE sql STABLE AS $$
    WITH space AS MATERIALIZED (
        SELECT c.candidate_id, c.requires, p.ordinal
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = $1 AND c.state <> 'failed'
    )
    SELECT s.candidate_id FROM space s
    WHERE NOT EXISTS (
        SELECT FROM space e WHERE e.ordinal < s.ordinal AND e.requires <@ s.requires)
$$;
COMMENT ON FUNCTION default_candidates IS
    'The candidates of a job that some class is given as its default_kernel where nothing is denied: '
    'the most promising that did not fail, one for each set of features that allows no earlier one.';

UPDATE candidate c SET is_default = true
FROM tuning_job j CROSS JOIN LATERAL default_candidates(j.id) d
WHERE j.space IN ('', 'any') AND c.candidate_id = d.candidate_id;
