-- Retention remembers how far it came, and training counts what was judged instead of what is there.

CREATE TABLE retention_mark (
    of_table text PRIMARY KEY CHECK (of_table IN ('lease', 'agent_session')),
    reached bigint NOT NULL DEFAULT 0,
    again bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE retention_mark IS 'How far looking for what is too old has come, by number of a row.';
COMMENT ON COLUMN retention_mark.reached IS 'All rows up to here were old, and were looked at.';
COMMENT ON COLUMN retention_mark.again IS
    'Of those that were kept, all up to here were looked at again; at `reached` it begins anew.';
INSERT INTO retention_mark (of_table) VALUES ('lease'), ('agent_session');

COMMENT ON COLUMN cost_model.measurements IS
    'Measurements that had been judged when it was trained, those that were removed since among them.';
