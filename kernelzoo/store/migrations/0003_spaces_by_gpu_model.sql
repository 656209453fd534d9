-- A job is of one space: '' for wasm, for webgpu that of a model of GPU.
ALTER TABLE tuning_job ADD COLUMN space text NOT NULL DEFAULT '';
UPDATE tuning_job SET space = 'any' WHERE kind = 'webgpu';
ALTER TABLE tuning_job
    ALTER COLUMN space DROP DEFAULT,
    DROP CONSTRAINT tuning_job_workload_key_kind_key,
    ADD UNIQUE (workload_key, kind, space),
    ADD CHECK ((kind = 'wasm') = (space = ''));
COMMENT ON COLUMN tuning_job.space IS
    'Name of a kernelzoo.domain.gpu model for webgpu, ''any'' where none is known; '''' for wasm.';

-- A candidate may be a point of several spaces, and is compiled once.
CREATE TABLE space_point (
    job_id bigint NOT NULL REFERENCES tuning_job,
    ordinal integer NOT NULL CHECK (ordinal >= 0),
    candidate_id text NOT NULL REFERENCES candidate,
    PRIMARY KEY (job_id, ordinal),
    UNIQUE (candidate_id, job_id)
);
COMMENT ON TABLE space_point IS 'The candidates of a job. Spaces of several GPU models share some.';
COMMENT ON COLUMN space_point.ordinal IS 'Order of promise within the lite space; 0 is first.';
INSERT INTO space_point (job_id, ordinal, candidate_id)
    SELECT job_id, ordinal, candidate_id FROM candidate;

ALTER TABLE candidate ADD COLUMN workload_key text REFERENCES workload, ADD COLUMN kind text;
UPDATE candidate c SET workload_key = j.workload_key, kind = j.kind
    FROM tuning_job j WHERE j.id = c.job_id;
ALTER TABLE candidate
    ALTER COLUMN workload_key SET NOT NULL,
    ALTER COLUMN kind SET NOT NULL,
    ADD CHECK (kind IN ('wasm', 'webgpu')),
    DROP COLUMN job_id,
    DROP COLUMN ordinal;

-- A device tells its model again with its next session.
ALTER TABLE device ADD COLUMN gpu_model text NOT NULL DEFAULT 'any';
ALTER TABLE device ALTER COLUMN gpu_model DROP DEFAULT;
COMMENT ON COLUMN device.gpu_model IS 'Name of a kernelzoo.domain.gpu model, as of its last session.';

COMMENT ON COLUMN agent_session.peak_gflops IS
    'Register-only limit as probed in the page: of one core for wasm, of the whole GPU for webgpu.';
COMMENT ON COLUMN agent_session.probe IS
    'ProbeLevels or GpuProbeLevels of kernelzoo.domain.device; null where not told.';

CREATE INDEX lease_identity ON lease (identity_id, expires_at);

CREATE FUNCTION space_of(kind text, device_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN kind = 'wasm' THEN ''
                ELSE coalesce((SELECT d.gpu_model FROM device d WHERE d.device_id = $2), 'any') END
$$;
COMMENT ON FUNCTION space_of IS 'The space in which a device is measured; a stranger''s GPU is any.';

CREATE FUNCTION default_kernel(workload_key text, kind text, device_id text, features text[])
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, first.candidate_id, first.state
    FROM tuning_job j
    CROSS JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = j.id AND c.state <> 'failed' AND c.requires <@ $4
        ORDER BY p.ordinal LIMIT 1
    ) first
    WHERE j.workload_key = $1 AND j.kind = $2 AND j.state = 'planned'
      AND j.space IN (space_of($2, $3), 'any')
    ORDER BY first.state <> 'compiled', j.space = 'any' LIMIT 1
$$;
COMMENT ON FUNCTION default_kernel IS
    'The most promising candidate that these features can run and that did not fail: of the space of '
    'the device, or of any GPU until its own is compiled. Leases name it as reference, ballots are '
    'relative to it, and a device unknown to the zoo is served it once it is compiled.';

CREATE FUNCTION unmeasured(job_id bigint, identity_id uuid, device_class text, features text[])
    RETURNS TABLE (candidate_id text, ordinal integer, state text) LANGUAGE sql STABLE AS $$
    SELECT c.candidate_id, p.ordinal, c.state
    FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
    WHERE p.job_id = $1 AND c.state <> 'failed' AND c.requires <@ $4
      AND NOT EXISTS (
        SELECT FROM measurement m
        WHERE m.identity_id = $2 AND m.device_class = $3 AND m.candidate_id = c.candidate_id)
      AND NOT EXISTS (
        SELECT FROM lease l JOIN lease_item i ON i.lease_id = l.id
        WHERE l.identity_id = $2 AND l.device_class = $3 AND l.expires_at > now()
          AND i.candidate_id = c.candidate_id)
$$;
COMMENT ON FUNCTION unmeasured IS
    'Candidates of a job that these features can run, compiled or not, which an identity has neither '
    'reported for a device class nor holds on an open lease.';

CREATE FUNCTION kernel_time(candidate_id text, device_class text)
    RETURNS TABLE (best_ns double precision, identities bigint) LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY best), count(*)
    FROM (
        SELECT min(m.best_ns) AS best FROM measurement m
        WHERE m.candidate_id = $1 AND m.device_class = $2
          AND m.outcome = 'ok' AND m.verdict = 'verified'
        GROUP BY m.identity_id
    ) AS by_identity
$$;
COMMENT ON FUNCTION kernel_time IS
    'Median over identities of each one''s best verified time; null and 0 without any.';
