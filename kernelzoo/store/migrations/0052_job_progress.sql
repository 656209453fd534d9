-- How far a job has come is a row for each of its classes, kept by whoever reports, judges or votes.
-- `job_id` marks the measurements that these rows count; the next migration counts those before.

CREATE TABLE job_progress (
    job_id bigint NOT NULL REFERENCES tuning_job,
    device_class text NOT NULL,
    agents integer NOT NULL DEFAULT 0,
    candidates integer NOT NULL DEFAULT 0,
    ok bigint NOT NULL DEFAULT 0,
    validate bigint NOT NULL DEFAULT 0,
    compile bigint NOT NULL DEFAULT 0,
    run bigint NOT NULL DEFAULT 0,
    compare bigint NOT NULL DEFAULT 0,
    timeout bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,
    ballots bigint NOT NULL DEFAULT 0,
    best_ns double precision,
    begun_at timestamptz,
    last_at timestamptz,
    PRIMARY KEY (job_id, device_class)
);
COMMENT ON TABLE job_progress IS
    'What the classes of a job have measured: all that there ever was, but for ballots, which are '
    'those that stand. What is removed for its age or erased stays counted, and names nobody.';
COMMENT ON COLUMN job_progress.agents IS 'Identities that measured at least one candidate.';
COMMENT ON COLUMN job_progress.ok IS 'Measurements that ran and were not rejected.';
COMMENT ON COLUMN job_progress.best_ns IS 'Of measurements that are verified, or wait for it.';
COMMENT ON COLUMN job_progress.begun_at IS 'When the first of the leases was granted.';

CREATE TABLE improvement (
    job_id bigint NOT NULL,
    device_class text NOT NULL,
    round bigint NOT NULL CHECK (round > 0),
    elapsed_s double precision NOT NULL,
    best_ns double precision NOT NULL,
    lease_id bigint NOT NULL,
    candidate_id text NOT NULL,
    PRIMARY KEY (job_id, device_class, round),
    FOREIGN KEY (job_id, device_class) REFERENCES job_progress
);
COMMENT ON TABLE improvement IS
    'Measurements that were faster than all before them of their job and class, and not rejected.';
COMMENT ON COLUMN improvement.round IS 'How many measurements the class had made of the job.';
COMMENT ON COLUMN improvement.elapsed_s IS 'Since the first lease.';

CREATE FUNCTION count_ballots() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT j.id AS job_id, b.device_class, count(*) * CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END
                   AS ballots
        FROM changed b JOIN tuning_job j ON j.workload_key = b.workload_key
            AND j.target = target_of(b.device_class)
            AND j.space = space_of(target_of(b.device_class), device_id_of(b.device_class))
        GROUP BY j.id, b.device_class ORDER BY j.id, b.device_class
    LOOP
        INSERT INTO job_progress AS p (job_id, device_class, ballots)
        VALUES (change.job_id, change.device_class, greatest(0, change.ballots))
        ON CONFLICT (job_id, device_class) DO UPDATE
        SET ballots = greatest(0, p.ballots + change.ballots);
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_ballots IS 'Counts the standing ballots of a class in its job.';

CREATE TRIGGER ballot_counted AFTER INSERT ON ballot REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_ballots();
CREATE TRIGGER ballot_counted_no_more AFTER DELETE ON ballot REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_ballots();

INSERT INTO job_progress (job_id, device_class, ballots)
SELECT j.id, b.device_class, sum(b.ballots)
FROM (SELECT workload_key, device_class, count(*) AS ballots FROM ballot GROUP BY 1, 2) b
JOIN tuning_job j ON j.workload_key = b.workload_key AND j.target = target_of(b.device_class)
    AND j.space = space_of(target_of(b.device_class), device_id_of(b.device_class))
GROUP BY j.id, b.device_class;

CREATE INDEX zoo_entry_listed ON zoo_entry (published_at, workload_key, device_class)
    WHERE state <> 'retired';

CREATE OR REPLACE FUNCTION kernel_time(candidate_id text, device_class text)
    RETURNS TABLE (best_ns double precision, identities bigint) LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY best), count(*)
    FROM (
        SELECT min(latest.best_ns) AS best FROM (
            SELECT m.identity_id, m.best_ns FROM measurement m
            WHERE m.candidate_id = $1 AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified'
            ORDER BY m.created_at DESC LIMIT 64
        ) latest
        GROUP BY latest.identity_id
    ) AS by_identity
$$;
COMMENT ON FUNCTION kernel_time IS
    'Median over identities of each one''s best verified time, in the latest 64 measurements; null and '
    '0 without any.';

ALTER TABLE measurement ADD COLUMN job_id bigint;
COMMENT ON COLUMN measurement.job_id IS
    'The job of its lease; null where it was reported before there was this column.';

CREATE FUNCTION count_measurements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added record;
    rounds bigint;
    fastest double precision;
    since timestamptz;
BEGIN
    FOR added IN
        SELECT r.job_id, r.device_class, min(l.created_at) AS begun_at,
               max(r.created_at) AS last_at, min(r.best_ns) AS best_ns,
               count(*) FILTER (WHERE r.outcome = 'ok') AS ok,
               count(*) FILTER (WHERE r.outcome = 'validate') AS validate,
               count(*) FILTER (WHERE r.outcome = 'compile') AS compile,
               count(*) FILTER (WHERE r.outcome = 'run') AS run,
               count(*) FILTER (WHERE r.outcome = 'compare') AS compare,
               count(*) FILTER (WHERE r.outcome = 'timeout') AS timeout
        FROM reported r JOIN lease l ON l.id = r.lease_id
        WHERE r.job_id IS NOT NULL
        GROUP BY r.job_id, r.device_class ORDER BY r.job_id, r.device_class
    LOOP
        INSERT INTO job_progress (job_id, device_class) VALUES (added.job_id, added.device_class)
        ON CONFLICT DO NOTHING;
        -- Those of one class take turns from here on, so that each sees what the others counted.
        SELECT p.ok + p.validate + p.compile + p.run + p.compare + p.timeout + p.rejected,
               coalesce(p.begun_at, added.begun_at)
        INTO rounds, since FROM job_progress p
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class FOR UPDATE;
        SELECT i.best_ns INTO fastest FROM improvement i
        WHERE i.job_id = added.job_id AND i.device_class = added.device_class
        ORDER BY i.round DESC LIMIT 1;
        INSERT INTO improvement
            (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
        SELECT added.job_id, added.device_class, rounds + place,
               extract(epoch FROM created_at - since), best_ns, lease_id, candidate_id
        FROM (
            SELECT r.*, row_number() OVER made AS place,
                   min(r.best_ns) OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                       AS before_ns
            FROM reported r
            WHERE r.job_id = added.job_id AND r.device_class = added.device_class
            WINDOW made AS (ORDER BY r.created_at, r.candidate_id, r.lease_id)
        ) found
        WHERE best_ns < coalesce(least(fastest, before_ns), 'infinity');
        UPDATE job_progress p
        SET agents = p.agents + (
                SELECT count(DISTINCT r.identity_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM space_point s
                    JOIN measurement m ON m.candidate_id = s.candidate_id
                    WHERE s.job_id = p.job_id AND m.identity_id = r.identity_id
                      AND m.device_class = p.device_class
                      AND m.lease_id NOT IN (SELECT lease_id FROM reported))),
            candidates = p.candidates + (
                SELECT count(DISTINCT r.candidate_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM measurement m
                    WHERE m.candidate_id = r.candidate_id AND m.device_class = p.device_class
                      AND m.lease_id NOT IN (SELECT lease_id FROM reported))),
            ok = p.ok + added.ok, validate = p.validate + added.validate,
            compile = p.compile + added.compile, run = p.run + added.run,
            compare = p.compare + added.compare, timeout = p.timeout + added.timeout,
            best_ns = least(p.best_ns, added.best_ns), begun_at = since,
            last_at = greatest(p.last_at, added.last_at)
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_measurements IS 'Adds what was reported to job_progress and improvement.';

CREATE TRIGGER measurement_counted AFTER INSERT ON measurement
    REFERENCING NEW TABLE AS reported
    FOR EACH STATEMENT EXECUTE FUNCTION count_measurements();

CREATE FUNCTION count_refused() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    progress job_progress;
    refused improvement;
BEGIN
    SELECT * INTO progress FROM job_progress p
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF progress.best_ns >= NEW.best_ns THEN
        UPDATE job_progress p SET best_ns = (
            SELECT min(m.best_ns) FROM space_point s
            JOIN measurement m ON m.candidate_id = s.candidate_id
            WHERE s.job_id = p.job_id AND m.device_class = p.device_class
              AND m.verdict IN ('pending', 'verified'))
        WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    END IF;
    IF NEW.verdict <> 'rejected' THEN
        RETURN NULL;
    END IF;
    UPDATE job_progress p
    SET rejected = p.rejected + 1, ok = p.ok - (NEW.outcome = 'ok')::integer
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
      AND i.lease_id = NEW.lease_id AND i.candidate_id = NEW.candidate_id
    RETURNING * INTO refused;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- What it was faster than may have been an improvement without it.
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class AND i.round > refused.round;
    INSERT INTO improvement (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
    SELECT NEW.job_id, NEW.device_class, refused.round + place,
           extract(epoch FROM created_at - progress.begun_at), best_ns, lease_id, candidate_id
    FROM (
        SELECT m.*, row_number() OVER made AS place,
               min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                   OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
        FROM space_point s JOIN measurement m ON m.candidate_id = s.candidate_id
        WHERE s.job_id = NEW.job_id AND m.device_class = NEW.device_class
          AND (m.created_at, m.candidate_id, m.lease_id)
              > (NEW.created_at, NEW.candidate_id, NEW.lease_id)
        WINDOW made AS (ORDER BY m.created_at, m.candidate_id, m.lease_id)
    ) later
    WHERE verdict <> 'rejected' AND best_ns < coalesce(least(before_ns, (
        SELECT i.best_ns FROM improvement i
        WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
        ORDER BY i.round DESC LIMIT 1)), 'infinity');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_refused IS
    'Takes a measurement back out of job_progress and improvement that is not believed. A quarantined '
    'one stays an improvement: no agent is told that it is not believed.';

CREATE TRIGGER measurement_refused AFTER UPDATE OF verdict ON measurement
    FOR EACH ROW WHEN (OLD.verdict <> NEW.verdict
                       AND NEW.verdict IN ('rejected', 'quarantined', 'unjudged'))
    EXECUTE FUNCTION count_refused();

CREATE OR REPLACE FUNCTION accept_report(
    of_lease bigint, by_identity uuid, told_nonce text, candidates text[], described jsonb)
    RETURNS TABLE (fault text, named text, expired_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    held lease;
BEGIN
    -- Each statement sees what was committed before it began, so the lock comes first.
    SELECT * INTO held FROM lease l WHERE l.id = of_lease FOR UPDATE;
    expired_at := held.expires_at;
    IF held.identity_id IS DISTINCT FROM by_identity THEN
        fault := 'no_lease';
    -- Digests, so that the time to compare them tells nothing.
    ELSIF sha256(convert_to(held.nonce, 'UTF8')) <> sha256(convert_to(told_nonce, 'UTF8')) THEN
        fault := 'nonce';
    ELSIF held.expires_at <= now() THEN
        fault := 'expired';
    ELSE
        SELECT 'unfit', min(c) INTO fault, named FROM unnest(candidates) c
        WHERE c NOT IN (SELECT i.candidate_id FROM lease_item i WHERE i.lease_id = of_lease)
        HAVING count(*) > 0;
        IF fault IS NULL THEN
            SELECT 'answered', min(m.candidate_id) INTO fault, named FROM measurement m
            WHERE m.lease_id = of_lease AND m.candidate_id = ANY (candidates)
            HAVING count(*) > 0;
        END IF;
    END IF;
    RETURN NEXT;
    IF fault IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO measurement
        (lease_id, candidate_id, identity_id, device_class, outcome, samples_ns, reference_ns,
         calls_per_sample, sampled_entries, detail, best_ns, relative_time,
         compile_ns, optimise_ns, pack_ns, first_run_ns, job_id)
    SELECT of_lease, f.candidate_id, by_identity, held.device_class, f.outcome,
           f.samples::double precision[], f.reference::double precision[], f.calls,
           f.entries::double precision[], f.detail, f.best_ns, f.relative_time,
           f.compile_ns, f.optimise_ns, f.pack_ns, f.first_run_ns,
           held.job_id
    FROM jsonb_to_recordset(described)
        AS f (candidate_id text, outcome text, samples text, reference text, calls integer,
              entries text, detail text, best_ns double precision,
              relative_time double precision, compile_ns double precision,
              optimise_ns double precision, pack_ns double precision,
              first_run_ns double precision);
    IF (SELECT count(*) FROM lease_item i WHERE i.lease_id = of_lease)
       = (SELECT count(*) FROM measurement m WHERE m.lease_id = of_lease) THEN
        UPDATE lease SET answered = true WHERE id = of_lease;
        IF NOT EXISTS (
            SELECT FROM lease o
            WHERE o.device_class = held.device_class AND o.job_id = held.job_id
              AND NOT o.answered AND o.expires_at > now()) THEN
            PERFORM pg_notify('kernelzoo_leases', '');
        END IF;
    END IF;
END
$$;
