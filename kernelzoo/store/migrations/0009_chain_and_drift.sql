-- What a class without an entry is served: what similar classes found (docs/chain.md). And under
-- which engines an entry was measured, so that a new one is measured again (docs/trust.md).

ALTER TABLE zoo_entry ADD COLUMN pooled boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN zoo_entry.pooled IS 'Whether common_kernel knows of this state of the entry.';
CREATE INDEX zoo_entry_unpooled ON zoo_entry (workload_key) WHERE NOT pooled;
CREATE INDEX zoo_entry_device ON zoo_entry (split_part(device_class, ':', 1), workload_key)
    WHERE state = 'confirmed';

CREATE FUNCTION operation_of(workload_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 1) || ':' || split_part($1, ':', 2) || ':' || split_part($1, ':', 4)
$$;
COMMENT ON FUNCTION operation_of IS 'A workload key without its extents.';

CREATE FUNCTION rho_distance(one text, other text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN split_part($1, '-', 1) = split_part($2, '-', 1) AND length($1) = length($2)
                THEN bit_count(split_part($1, '-', 2)::varbit # split_part($2, '-', 2)::varbit)
                ELSE 65 END::integer
$$;
COMMENT ON FUNCTION rho_distance IS
    'Bits in which two primitive vectors differ; 65, more than any, where their suites differ.';

CREATE FUNCTION servable(workload_key text, device_class text, space text)
    RETURNS TABLE (candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT c.candidate_id, c.config FROM candidate c
    WHERE c.state = 'compiled' AND NOT is_denied(c.candidate_id, $2)
      AND c.requires <@ string_to_array(split_part($2, ':', 3), '+')
      AND c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j JOIN space_point p ON p.job_id = j.id
        WHERE j.workload_key = $1 AND j.kind = split_part(split_part($2, ':', 3), '+', 1)
          AND j.space IN ($3, 'any'))
$$;
COMMENT ON FUNCTION servable IS
    'Kernels of a workload that a page of this device class can be given on the word of others: '
    'compiled, within its features, not denied to it, and of its space or that of any GPU.';

CREATE TABLE common_kernel (
    workload_key text NOT NULL REFERENCES workload,
    scope text NOT NULL CHECK (scope IN ('architecture', 'vendor', 'common')),
    family text NOT NULL,
    rho text NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    relative_time double precision NOT NULL CHECK (relative_time >= 1),
    classes integer NOT NULL CHECK (classes > 0),
    identities integer NOT NULL CHECK (identities > 0),
    PRIMARY KEY (workload_key, candidate_id, scope, family, rho)
);
COMMENT ON TABLE common_kernel IS
    'Winners of some class by how they do on all classes of a family that have the same primitive '
    'vector. Made from confirmed entries and may be made again at any time.';
COMMENT ON COLUMN common_kernel.family IS
    'An architecture or a vendor, as kernelzoo.domain.kinship writes it; '''' for all classes.';
COMMENT ON COLUMN common_kernel.relative_time IS
    'Mean over the classes of its time there over that of the fastest known there.';
COMMENT ON COLUMN common_kernel.identities IS 'That measured it, over all these classes.';

ALTER TABLE zoo_entry ADD COLUMN engines jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN zoo_entry.engines IS
    'Of the counted ballots: engines, their major versions, and how many ballots of each.';
COMMENT ON COLUMN zoo_entry.reason IS
    'Why this version replaced the one before, where that was more than a vote.';
CREATE INDEX agent_session_identity ON agent_session (identity_id, device_class);

CREATE FUNCTION engine_major(version text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(substring($1 FROM '^[0-9]{1,6}')::integer, 0)
$$;
COMMENT ON FUNCTION engine_major IS 'As kernelzoo.domain.device.Engine.major; 0 where it has none.';

CREATE FUNCTION is_outdated(session_id bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM agent_session s
        JOIN agent_session n ON n.identity_id = s.identity_id
         AND n.device_class = s.device_class AND n.engine_name = s.engine_name
         AND engine_major(n.engine_version) > engine_major(s.engine_version)
        WHERE s.id = $1)
$$;
COMMENT ON FUNCTION is_outdated IS
    'Whether the identity of a session has come back with a newer major version of its engine.';

CREATE FUNCTION stands(lease_id bigint, candidate_id text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM lease l
        JOIN tuning_job j ON j.id = l.job_id
        WHERE l.id = $1 AND is_outdated(l.session_id) AND ($2 = l.reference_id
           OR $2 IN (
            SELECT e.candidate_id FROM zoo_entry e
            WHERE e.workload_key = j.workload_key AND e.device_class = l.device_class
              AND e.state <> 'retired')
           OR $2 IN (
            SELECT unnest(b.candidate_ids) FROM ballot b
            WHERE b.identity_id = l.identity_id AND b.workload_key = j.workload_key
              AND b.device_class = l.device_class)))
$$;
COMMENT ON FUNCTION stands IS
    'Whether what a lease found of a candidate still counts as measured. Under a newer major version '
    'of its engine an identity measures the champion, the default kernel and those of its own ballot '
    'again; what else it has measured is left alone.';
