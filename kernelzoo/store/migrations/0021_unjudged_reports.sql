-- A report that cannot be judged is tried a few times and then set aside, with the reason.

ALTER TABLE measurement ADD COLUMN retries integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN measurement.retries IS 'How often judging it was begun again after it came to no end.';
ALTER TABLE measurement DROP CONSTRAINT measurement_verdict_check;
ALTER TABLE measurement ADD CONSTRAINT measurement_verdict_check
    CHECK (verdict IN ('pending', 'verified', 'rejected', 'quarantined', 'unjudged'));
COMMENT ON COLUMN measurement.verdict IS
    'rejected: its sampled entries are wrong; quarantined: right, of an identity that failed a check; '
    'unjudged: given up, as detail tells. Only what is verified counts; a failure is verified as told.';
