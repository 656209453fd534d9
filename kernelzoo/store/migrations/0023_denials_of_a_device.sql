-- A denial of one class spares the device's other classes only where it outweighs their successes,
-- and never takes the last kernel from them.

ALTER TABLE denied ADD COLUMN device_wide boolean NOT NULL DEFAULT false;
UPDATE denied SET device_wide = true WHERE operated AND denied;
COMMENT ON COLUMN denied.device_wide IS
    'Whether other classes of the device get it as their default only where they have no other.';
CREATE INDEX denied_device ON denied (split_part(device_class, ':', 1)) WHERE denied;

DROP FUNCTION default_kernel;
CREATE FUNCTION default_kernel(workload_key text, device_class text)
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, coalesce(first.candidate_id, last.candidate_id), coalesce(first.state, last.state)
    FROM tuning_job j
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = j.id AND c.state <> 'failed'
          AND c.requires <@ string_to_array(split_part($2, ':', 3), '+')
          AND NOT EXISTS (
            SELECT FROM denied d
            WHERE d.artifact_sha256 = c.artifact_sha256 AND d.denied
              AND (d.device_class = $2 OR d.device_wide
                   AND split_part(d.device_class, ':', 1) = split_part($2, ':', 1)))
        ORDER BY p.ordinal LIMIT 1
    ) first ON true
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE first.candidate_id IS NULL AND p.job_id = j.id AND c.state <> 'failed'
          AND c.requires <@ string_to_array(split_part($2, ':', 3), '+')
          AND NOT is_denied(c.candidate_id, $2)
        ORDER BY p.ordinal LIMIT 1
    ) last ON true
    WHERE j.workload_key = $1 AND j.kind = split_part(split_part($2, ':', 3), '+', 1)
      AND j.state = 'planned'
      AND j.space IN ('any', space_of(split_part(split_part($2, ':', 3), '+', 1),
                                      split_part($2, ':', 1)))
      AND coalesce(first.candidate_id, last.candidate_id) IS NOT NULL
    ORDER BY coalesce(first.state, last.state) <> 'compiled', j.space = 'any' LIMIT 1
$$;
COMMENT ON FUNCTION default_kernel IS
    'The most promising candidate that a class can run, that did not fail, is not denied to it and, '
    'while there is another, not to its device: of its space, or of any GPU until its own is '
    'compiled. Leases name it as reference, ballots are relative to it, and a device unknown to the '
    'zoo is served it once it is compiled.';
