-- A device class is taken apart in four functions, and its parts are columns where queries ask for
-- them.

CREATE FUNCTION device_id_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 1)
$$;
CREATE FUNCTION rho_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 2)
$$;
CREATE FUNCTION target_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(split_part($1, ':', 3), '+', 1)
$$;
CREATE FUNCTION features_of(device_class text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT (string_to_array(split_part($1, ':', 3), '+'))[2:]
$$;
COMMENT ON FUNCTION device_id_of IS
    'The device of a class, whose text is <device id>:<rho>:<target>+<feature>+...; as '
    'kernelzoo.domain.device.DeviceClass takes it apart.';

ALTER TABLE device_class
    ADD target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED;
ALTER TABLE agent_session
    ADD target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED;
ALTER TABLE ballot
    ADD device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED,
    ADD target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED;
ALTER TABLE zoo_entry
    ADD device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED,
    ADD rho text NOT NULL GENERATED ALWAYS AS (rho_of(device_class)) STORED,
    ADD target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED;
ALTER TABLE denied
    ADD device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED;
ALTER TABLE page_load
    ADD target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED;

DROP INDEX zoo_entry_device;
CREATE INDEX zoo_entry_device ON zoo_entry (device_id, workload_key) WHERE state = 'confirmed';
DROP INDEX denied_device;
CREATE INDEX denied_device ON denied (device_id) WHERE denied;

CREATE OR REPLACE FUNCTION default_kernel(workload_key text, device_class text)
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, coalesce(first.candidate_id, last.candidate_id), coalesce(first.state, last.state)
    FROM tuning_job j
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = j.id AND c.state <> 'failed'
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
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE first.candidate_id IS NULL AND p.job_id = j.id AND c.state <> 'failed'
          AND c.requires <@ features_of($2)
          AND NOT is_denied(c.candidate_id, $2)
        ORDER BY p.ordinal LIMIT 1
    ) last ON true
    WHERE j.workload_key = $1 AND j.target = target_of($2) AND j.state = 'planned'
      AND j.space IN ('any', space_of(target_of($2), device_id_of($2)))
      AND coalesce(first.candidate_id, last.candidate_id) IS NOT NULL
    ORDER BY coalesce(first.state, last.state) <> 'compiled', j.space = 'any' LIMIT 1
$$;

CREATE OR REPLACE FUNCTION servable(workload_key text, device_class text, space text)
    RETURNS TABLE (candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT c.candidate_id, c.config FROM candidate c
    WHERE c.state = 'compiled' AND NOT is_denied(c.candidate_id, $2)
      AND c.requires <@ features_of($2)
      AND c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j JOIN space_point p ON p.job_id = j.id
        WHERE j.workload_key = $1 AND j.target = target_of($2)
          AND j.space IN ($3, 'any'))
$$;

CREATE OR REPLACE VIEW coverage AS
    SELECT j.workload_key, c.device_class, coalesce(e.state, 'missing') AS state,
           coalesce(l.loads, 0) AS loads, e.relative_time, e.candidate_id
    FROM (SELECT device_class, target FROM device_class
          UNION SELECT device_class, target FROM page_load) c
    JOIN (SELECT DISTINCT workload_key, target FROM tuning_job) j ON j.target = c.target
    LEFT JOIN zoo_entry e ON e.workload_key = j.workload_key
        AND e.device_class = c.device_class AND e.state <> 'retired'
    LEFT JOIN LATERAL (
        SELECT sum(p.loads) AS loads FROM page_load p
        WHERE p.device_class = c.device_class
          AND (p.name = j.workload_key OR EXISTS (
              SELECT FROM workload_set s
              WHERE s.name = p.name AND s.workload_key = j.workload_key))
    ) l ON true;

-- A pool is of connections; what classes have in common is aggregated by family.
ALTER TABLE zoo_entry RENAME COLUMN pooled TO aggregated;
ALTER INDEX zoo_entry_unpooled RENAME TO zoo_entry_unaggregated;
DO $$
BEGIN
    -- Since PostgreSQL 18 a NOT NULL is a constraint with a name.
    IF EXISTS (SELECT FROM pg_constraint WHERE conname = 'zoo_entry_pooled_not_null') THEN
        ALTER TABLE zoo_entry
            RENAME CONSTRAINT zoo_entry_pooled_not_null TO zoo_entry_aggregated_not_null;
    END IF;
END
$$;
COMMENT ON COLUMN zoo_entry.speaks IS
    'Whether other classes are told of it; see services.aggregator.speakers. Set where it is aggregated.';
