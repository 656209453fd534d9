CREATE INDEX CONCURRENTLY IF NOT EXISTS measurement_candidate_new
    ON measurement (candidate_id, device_class, created_at)
    INCLUDE (lease_id, identity_id, outcome, verdict, best_ns, relative_time) WHERE lease_id > 0;

CREATE INDEX CONCURRENTLY IF NOT EXISTS measurement_failed_new
    ON measurement (candidate_id, device_class) INCLUDE (identity_id)
    WHERE outcome <> 'ok' AND verdict = 'verified';
