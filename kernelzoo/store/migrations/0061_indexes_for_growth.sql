-- What is read stays as much as measurements become more: the times of all entries of a model's
-- workloads, which order its jobs with each entry that is published; the latest times of a candidate,
-- which order what a page tries; and the leases of a session that is removed, each of which was looked
-- for among all leases.

CREATE INDEX coverage_live ON coverage (workload_key, target) INCLUDE (best_ns)
    WHERE state <> 'missing';

CREATE INDEX measurement_latest ON measurement (candidate_id, created_at) INCLUDE (relative_time)
    WHERE outcome = 'ok' AND verdict = 'verified' AND relative_time IS NOT NULL;
COMMENT ON INDEX measurement_latest IS
    'For the latest times of a candidate on all classes. Its last condition keeps it from questions '
    'that do not name it: joins by lease would begin with candidates.';

CREATE INDEX lease_session ON lease (session_id);
