-- Agents of one device class share a space: why a candidate was lent, which leases are settled, and
-- relative times as a column, which sharing, ballots and tallies all read.

ALTER TABLE lease_item DROP CONSTRAINT lease_item_role_check;
ALTER TABLE lease_item ADD CONSTRAINT lease_item_role_check
    CHECK (role IN ('explore', 'leader', 'champion', 'control', 'validate'));
COMMENT ON COLUMN lease_item.role IS 'Why it was lent; see kernelzoo.domain.lease. No agent is told.';

ALTER TABLE lease ADD COLUMN answered boolean NOT NULL DEFAULT false;
ALTER TABLE lease ADD COLUMN closing boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN lease.answered IS 'Everything on it was reported.';
COMMENT ON COLUMN lease.closing IS 'Once answered, its agent has done its share of the job.';
CREATE INDEX lease_unanswered ON lease (device_class, expires_at) WHERE NOT answered;
CREATE INDEX lease_closing ON lease (identity_id, job_id, device_class) WHERE closing;

ALTER TABLE measurement ADD COLUMN relative_time double precision;
UPDATE measurement m SET relative_time = m.best_ns / (SELECT min(ns) FROM unnest(m.reference_ns) ns)
WHERE m.outcome = 'ok';
COMMENT ON COLUMN measurement.relative_time IS
    'best_ns over the smallest of reference_ns; null for a failure.';
DROP INDEX measurement_candidate;
CREATE INDEX measurement_candidate ON measurement (candidate_id, device_class, created_at);

CREATE INDEX candidate_workload ON candidate (workload_key);
CREATE INDEX agent_session_class ON agent_session (device_class, created_at);

DROP FUNCTION unmeasured(bigint, uuid, text, text[]);
