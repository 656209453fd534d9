-- A count of ballots looks up nobody for whom a kernel failed that runs for most.

COMMENT ON INDEX identity_operated IS
    'Who is the operator''s of many identities, without a look at each of them.';
