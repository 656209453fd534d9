-- What makes a crowd of strangers believable: quarantine, and kernels that a class must never run.

ALTER TABLE identity ADD COLUMN failed_at timestamptz;
COMMENT ON COLUMN identity.failed_at IS
    'When a lease of its last failed a check; in quarantine until enough in a row are valid again.';

ALTER TABLE measurement DROP CONSTRAINT measurement_verdict_check;
ALTER TABLE measurement ADD CONSTRAINT measurement_verdict_check
    CHECK (verdict IN ('pending', 'verified', 'rejected', 'quarantined'));
COMMENT ON COLUMN measurement.verdict IS
    'rejected: its sampled entries are wrong; quarantined: right, of an identity that failed a check. '
    'Only what is verified counts; a failure is verified as told.';
CREATE INDEX measurement_best ON measurement (candidate_id, best_ns);
CREATE INDEX lease_reference ON lease (device_class, reference_id);

ALTER TABLE zoo_entry ADD COLUMN reason text NOT NULL DEFAULT '';
ALTER TABLE zoo_entry ADD COLUMN served boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN zoo_entry.reason IS 'Why the version before it was rolled back; '''' for a vote.';
COMMENT ON COLUMN zoo_entry.served IS 'Published as confirmed: pages were served it, while it lived.';
-- Of retired entries nothing says more than their ballots; 5 is the usual quorum.
UPDATE zoo_entry SET served = state = 'confirmed' OR ballots >= 5;

CREATE TABLE denied (
    artifact_sha256 text NOT NULL REFERENCES artifact,
    device_class text NOT NULL,
    denied boolean NOT NULL,
    stage text NOT NULL,
    evidence text NOT NULL,
    operated boolean NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (artifact_sha256, device_class)
);
COMMENT ON TABLE denied IS
    'Artifacts that a class of devices is never served or lent; and those that the operator allowed, '
    'which no crowd may deny again.';
COMMENT ON COLUMN denied.operated IS 'Decided by the operator, not by failures that were counted.';
CREATE INDEX denied_class ON denied (device_class) WHERE denied;

CREATE TABLE page_failure (
    artifact_sha256 text NOT NULL REFERENCES artifact,
    device_class text NOT NULL,
    network text NOT NULL,
    workload_key text NOT NULL REFERENCES workload,
    stage text NOT NULL
        CHECK (stage IN ('validate', 'compile', 'run', 'compare', 'timeout')),
    detail text NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    rung_at timestamptz NOT NULL DEFAULT now(),
    tallied boolean NOT NULL DEFAULT false,
    PRIMARY KEY (artifact_sha256, device_class, network)
);
COMMENT ON TABLE page_failure IS
    'Served kernels that failed in a visitor''s page; a network has one voice for each.';
CREATE INDEX page_failure_network ON page_failure (network, reported_at);
CREATE INDEX page_failure_waiting ON page_failure (rung_at) WHERE NOT tallied;

CREATE FUNCTION is_denied(candidate_id text, device_class text)
    RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM candidate c JOIN denied d ON d.artifact_sha256 = c.artifact_sha256
        WHERE c.candidate_id = $1 AND d.device_class = $2 AND d.denied)
$$;
COMMENT ON FUNCTION is_denied IS 'Whether devices of this class must never run this kernel.';

CREATE OR REPLACE FUNCTION default_kernel(workload_key text, kind text, device_id text, features text[])
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, first.candidate_id, first.state
    FROM tuning_job j
    CROSS JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = j.id AND c.state <> 'failed' AND c.requires <@ $4
          AND NOT EXISTS (
            SELECT FROM denied d
            WHERE d.artifact_sha256 = c.artifact_sha256 AND d.denied
              AND split_part(d.device_class, ':', 1) = $3)
        ORDER BY p.ordinal LIMIT 1
    ) first
    WHERE j.workload_key = $1 AND j.kind = $2 AND j.state = 'planned'
      AND j.space IN (space_of($2, $3), 'any')
    ORDER BY first.state <> 'compiled', j.space = 'any' LIMIT 1
$$;
COMMENT ON FUNCTION default_kernel IS
    'The most promising candidate that these features can run, that did not fail and that is denied '
    'to no class of the device: of its space, or of any GPU until its own is compiled. Leases name '
    'it as reference, ballots are relative to it, and a device unknown to the zoo is served it once '
    'it is compiled.';
