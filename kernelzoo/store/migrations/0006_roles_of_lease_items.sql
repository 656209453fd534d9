-- Why a candidate was lent: the scheduler fills each lease by role, and controls are judged;
-- what comes of it is an identity's reputation.

ALTER TABLE lease_item ADD COLUMN role text NOT NULL DEFAULT 'explore'
    CHECK (role IN ('explore', 'champion', 'control', 'validate'));
COMMENT ON COLUMN lease_item.role IS
    'Why it was lent; no agent is told. champion: for pairing; control: a kernel whose time is known; '
    'validate: a winner of similar devices.';

ALTER TABLE identity ADD COLUMN valid_in_row integer NOT NULL DEFAULT 0 CHECK (valid_in_row >= 0);
COMMENT ON COLUMN identity.valid_in_row IS
    'Leases since its last one that failed a check; see kernelzoo.domain.trust.';
