-- How many identities a class has is kept as sessions come and go: to count them read all sessions.

ALTER TABLE device_class
    ADD COLUMN crowd integer NOT NULL DEFAULT 0,
    ADD COLUMN strangers integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN device_class.crowd IS
    'Identities that have a session on it; those whose sessions were removed are not among them.';
COMMENT ON COLUMN device_class.strangers IS 'Those of its crowd that are not the operator''s.';

CREATE FUNCTION count_crowd() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    -- Who opens a session while another of its is removed waits here, so that one sees the other.
    PERFORM FROM identity i WHERE i.id IN (SELECT identity_id FROM changed)
    ORDER BY i.id FOR NO KEY UPDATE;
    FOR change IN
        SELECT c.device_class, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END AS sign,
               count(*) AS crowd, count(*) FILTER (WHERE NOT i.operated) AS strangers
        FROM (SELECT DISTINCT identity_id, device_class FROM changed) c
        JOIN identity i ON i.id = c.identity_id
        WHERE NOT EXISTS (
            SELECT FROM agent_session s
            WHERE s.identity_id = c.identity_id AND s.device_class = c.device_class
              AND s.id NOT IN (SELECT id FROM changed))
        GROUP BY c.device_class ORDER BY c.device_class
    LOOP
        UPDATE device_class d
        SET crowd = d.crowd + change.sign * change.crowd,
            strangers = d.strangers + change.sign * change.strangers
        WHERE d.device_class = change.device_class;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_crowd IS
    'Counts the identities of a class, as the first session of one is opened and its last removed.';

CREATE TRIGGER session_counted AFTER INSERT ON agent_session REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_crowd();
CREATE TRIGGER session_counted_no_more AFTER DELETE ON agent_session
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_crowd();

UPDATE device_class d SET crowd = found.crowd, strangers = found.strangers
FROM (
    SELECT s.device_class, count(*) AS crowd, count(*) FILTER (WHERE NOT i.operated) AS strangers
    FROM (SELECT DISTINCT identity_id, device_class FROM agent_session) s
    JOIN identity i ON i.id = s.identity_id
    GROUP BY s.device_class
) found
WHERE d.device_class = found.device_class;
