-- What a class without an entry is served: what similar classes found. docs/chain.md.

ALTER TABLE zoo_entry ADD COLUMN pooled boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN zoo_entry.pooled IS 'Whether common_kernel knows of this state of the entry.';
CREATE INDEX zoo_entry_unpooled ON zoo_entry (workload_key) WHERE NOT pooled;
CREATE INDEX zoo_entry_device ON zoo_entry (split_part(device_class, ':', 1), workload_key)
    WHERE state = 'confirmed';

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
    WHERE c.state = 'compiled' AND c.requires <@ string_to_array(split_part($2, ':', 3), '+')
      AND c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j JOIN space_point p ON p.job_id = j.id
        WHERE j.workload_key = $1 AND j.kind = split_part(split_part($2, ':', 3), '+', 1)
          AND j.space IN ($3, 'any'))
$$;
COMMENT ON FUNCTION servable IS
    'Kernels of a workload that a page of this device class can be given on the word of others: '
    'compiled, within its features, and of its space or that of any GPU.';

CREATE TABLE common_kernel (
    workload_key text NOT NULL REFERENCES workload,
    scope text NOT NULL CHECK (scope IN ('architecture', 'vendor', 'common')),
    family text NOT NULL,
    rho text NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    relative_time double precision NOT NULL CHECK (relative_time >= 1),
    classes integer NOT NULL CHECK (classes > 0),
    identities integer NOT NULL CHECK (identities > 0),
    PRIMARY KEY (workload_key, scope, family, rho, candidate_id)
);
COMMENT ON TABLE common_kernel IS
    'Winners of some class by how they do on all classes of a family that have the same primitive '
    'vector. Made from confirmed entries and may be made again at any time.';
COMMENT ON COLUMN common_kernel.family IS
    'An architecture or a vendor, as kernelzoo.domain.kinship writes it; '''' for all classes.';
COMMENT ON COLUMN common_kernel.relative_time IS
    'Mean over the classes of its time there over that of the fastest known there.';
COMMENT ON COLUMN common_kernel.identities IS 'That measured it, over all these classes.';
