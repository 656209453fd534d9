-- What is counted by network goes by where an identity is, not by where it was born.
ALTER TABLE agent_session ADD COLUMN network text NOT NULL DEFAULT '';
COMMENT ON COLUMN agent_session.network IS
    'Keyed hash of the network it was opened from; no address is stored.';
UPDATE agent_session s SET network = i.network FROM identity i WHERE i.id = s.identity_id;
CREATE INDEX agent_session_network ON agent_session (network, created_at);

ALTER TABLE identity ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT now();
UPDATE identity SET renewed_at = created_at;
COMMENT ON COLUMN identity.network IS
    'Keyed hash of the network of its latest session; no address is stored.';
COMMENT ON COLUMN identity.renewed_at IS
    'When it last opened a session and its token was replaced; one issued a day before ends.';
