-- A report of measurements is checked and stored in one question, and who waits for a lease is woken
-- on a channel of its own (ADR 39).

CREATE FUNCTION accept_report(
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
         calls_per_sample, sampled_entries, detail, best_ns, relative_time)
    SELECT of_lease, f.candidate_id, by_identity, held.device_class, f.outcome,
           f.samples::double precision[], f.reference::double precision[], f.calls,
           f.entries::double precision[], f.detail, f.best_ns, f.relative_time
    FROM jsonb_to_recordset(described)
        AS f (candidate_id text, outcome text, samples text, reference text, calls integer,
              entries text, detail text, best_ns double precision,
              relative_time double precision);
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
COMMENT ON FUNCTION accept_report IS
    'Stores measurements that answer a lease, all or none. `described` are those of `candidates`, '
    'with arrays of numbers as PostgreSQL writes them. `fault` says why none is stored, and is null '
    'where all are; `named` is the candidate at fault. Once everything on the lease is reported it '
    'wakes the agents of its class where none of them is still measuring: what they wait for can '
    'have changed then, and not before.';
