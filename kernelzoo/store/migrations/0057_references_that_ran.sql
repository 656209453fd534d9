-- A kernel that others are timed beside ran, although no measurement is of it.

CREATE FUNCTION tried(candidate_id text, device_class text)
    RETURNS TABLE (identity_id uuid, lease_id bigint, outcome text, created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT m.identity_id, m.lease_id, m.outcome, m.created_at FROM measurement m
    WHERE m.candidate_id = $1 AND m.device_class = $2 AND m.verdict = 'verified'
    UNION ALL
    (SELECT m.identity_id, m.lease_id, m.outcome, m.created_at
     FROM lease l JOIN measurement m ON m.lease_id = l.id
     WHERE l.device_class = $2 AND l.reference_id = $1
       AND m.outcome = 'ok' AND m.verdict = 'verified'
     ORDER BY l.id DESC LIMIT 4096)
$$;
COMMENT ON FUNCTION tried IS
    'Who ran a kernel on a class, and how that ended: verified measurements of it, and the latest of '
    'those that were made beside it.';
