-- What costs a page less than the fastest kernel where it runs it few times is lent to a quorum, too.

ALTER TABLE lease_item DROP CONSTRAINT lease_item_role_check;
ALTER TABLE lease_item ADD CONSTRAINT lease_item_role_check
    CHECK (role IN ('explore', 'leader', 'few_runs', 'champion', 'control', 'validate'));

CREATE FUNCTION relative_preparation(m measurement) RETURNS double precision
    LANGUAGE sql IMMUTABLE AS $$
    SELECT (m.compile_ns + m.pack_ns + greatest(0, m.first_run_ns - m.best_ns))
           * m.relative_time / m.best_ns
$$;
COMMENT ON FUNCTION relative_preparation IS
    'What a page pays for a kernel beside warm runs, in runs of the reference kernel; null for a '
    'failure and where it was not told.';
