-- What was set aside lately, and what failed, is found without reading what was not; so are the
-- candidates of an artifact, for which a tally read all of them.

CREATE INDEX measurement_set_aside ON measurement (created_at)
    WHERE verdict IN ('rejected', 'quarantined', 'unjudged');
CREATE INDEX measurement_failed ON measurement (candidate_id, device_class)
    WHERE outcome <> 'ok' AND verdict = 'verified';
CREATE INDEX candidate_artifact ON candidate (artifact_sha256);
CREATE INDEX page_failure_key ON page_failure (workload_key, device_class);
