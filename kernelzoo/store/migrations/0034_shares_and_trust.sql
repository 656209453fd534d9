-- A network has a share of what a class, and a workload on it, is lent on a day; failures that pages
-- told count under the trust that they were taken under, or a wider one.

ALTER TABLE ration DROP CONSTRAINT ration_scope_check;
ALTER TABLE ration ADD CONSTRAINT ration_scope_check CHECK
    (scope IN ('class', 'key', 'network', 'network on class', 'network on key'));
COMMENT ON TABLE ration IS
    'Candidates that strangers were lent on a day (UTC) in a network, on a device class, of a '
    'workload on a class, and of the latter two in a network: each is a measurement to store.';

ALTER TABLE page_failure ADD COLUMN trust text NOT NULL DEFAULT 'crowd'
    CHECK (trust IN ('operator', 'applications', 'crowd'));

CREATE FUNCTION trust_covers(trust text, taken_under text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT array_position(ARRAY['operator', 'applications', 'crowd'], $2)
        <= array_position(ARRAY['operator', 'applications', 'crowd'], $1)
$$;
COMMENT ON FUNCTION trust_covers IS
    'Whether a zoo with this KERNELZOO_TRUST counts what was taken under that one.';
