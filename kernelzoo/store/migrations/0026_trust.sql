-- Whom a zoo trusts is a setting, so that it is asked where ballots are counted.

CREATE FUNCTION is_trusted(trust text, operated boolean, application_id bigint)
    RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT $2 OR $1 = 'crowd' OR $1 = 'applications' AND $3 IS NOT NULL
$$;
COMMENT ON FUNCTION is_trusted IS
    'Whether a zoo with this KERNELZOO_TRUST counts what an identity measured in a session of this '
    'application, or of none.';
