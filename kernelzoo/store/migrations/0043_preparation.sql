-- What precedes a kernel's warm runs, as agents measure it, and kernels by how many runs of a page
-- they are best for.

ALTER TABLE measurement
    ADD COLUMN compile_ns double precision,
    ADD COLUMN optimise_ns double precision,
    ADD COLUMN pack_ns double precision,
    ADD COLUMN first_run_ns double precision,
    ADD CONSTRAINT measurement_preparation_check
        CHECK (num_nulls(compile_ns, optimise_ns, pack_ns, first_run_ns) IN (0, 4));
COMMENT ON COLUMN measurement.compile_ns IS
    'Until the first call may begin. This and the next three are null where they were not told.';
COMMENT ON COLUMN measurement.optimise_ns IS
    'From the first call until the code is as fast as it gets; 0 where there is one tier.';
COMMENT ON COLUMN measurement.pack_ns IS 'Of weights into the layout that the kernel reads.';

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
         compile_ns, optimise_ns, pack_ns, first_run_ns)
    SELECT of_lease, f.candidate_id, by_identity, held.device_class, f.outcome,
           f.samples::double precision[], f.reference::double precision[], f.calls,
           f.entries::double precision[], f.detail, f.best_ns, f.relative_time,
           f.compile_ns, f.optimise_ns, f.pack_ns, f.first_run_ns
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

CREATE TABLE kernel_by_runs (
    workload_key text NOT NULL,
    device_class text NOT NULL,
    version integer NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    runs integer CHECK (runs > 0),
    compile_ns double precision NOT NULL,
    optimise_ns double precision NOT NULL,
    pack_ns double precision NOT NULL,
    first_run_ns double precision NOT NULL,
    run_ns double precision NOT NULL,
    voters integer NOT NULL CHECK (voters > 0),
    PRIMARY KEY (workload_key, device_class, version, candidate_id),
    FOREIGN KEY (workload_key, device_class, version) REFERENCES zoo_entry
);
COMMENT ON TABLE kernel_by_runs IS
    'What the kernel of a live entry costs a page, and other kernels that cost less together with '
    'few runs: medians over voters, as services.aggregator.by_runs decides.';
COMMENT ON COLUMN kernel_by_runs.runs IS
    'It is the best for up to so many runs; null for the kernel of the entry, which is for all more.';

CREATE TRIGGER kernel_offered AFTER INSERT ON kernel_by_runs
    FOR EACH ROW WHEN (NEW.runs IS NOT NULL) EXECUTE FUNCTION publish_serial();
CREATE TRIGGER kernel_offered_no_more AFTER DELETE ON kernel_by_runs
    FOR EACH ROW WHEN (OLD.runs IS NOT NULL) EXECUTE FUNCTION publish_serial();
CREATE TRIGGER kernel_offered_otherwise AFTER UPDATE OF runs ON kernel_by_runs
    FOR EACH ROW WHEN (OLD.runs IS DISTINCT FROM NEW.runs) EXECUTE FUNCTION publish_serial();

COMMENT ON COLUMN publication.serial IS
    'Grows with every kernel that is confirmed, offered, retired, denied or allowed; of seconds since '
    '1970 where changes are rarer, so that a database that is made anew is not behind the one before.';
