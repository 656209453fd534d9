ALTER TABLE tuning_job ADD COLUMN cancelled_at timestamptz;
COMMENT ON COLUMN tuning_job.cancelled_at IS
    'Since then nothing of it is compiled or lent; what is served stays. Null where it goes on.';

CREATE FUNCTION is_wanted(candidate_id text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM space_point p JOIN tuning_job j ON j.id = p.job_id
        WHERE p.candidate_id = $1 AND j.cancelled_at IS NULL)
$$;
COMMENT ON FUNCTION is_wanted IS 'Whether a job that was not cancelled has this candidate.';
