-- Identities can be erased; what is old is removed.

ALTER TABLE identity ADD COLUMN erased_at timestamptz;
COMMENT ON COLUMN identity.erased_at IS
    'When all that it had was erased. The empty row stays for a day, so that erasing identities '
    'does not let a network open more of them.';
CREATE INDEX identity_erased ON identity (erased_at) WHERE erased_at IS NOT NULL;
