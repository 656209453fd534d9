-- Signed manifests carry a number that grows with every change of what is served, so that a page
-- which saw a later one refuses an earlier one.

CREATE TABLE publication (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    serial bigint NOT NULL
);
COMMENT ON TABLE publication IS 'One row: how far what is served has come.';
COMMENT ON COLUMN publication.serial IS
    'Grows with every kernel that is confirmed, retired, denied or allowed; of seconds since 1970 where '
    'changes are rarer, so that a database that is made anew is not behind the one before.';
INSERT INTO publication (serial) VALUES (extract(epoch FROM now())::bigint);

CREATE FUNCTION publish_serial() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE publication
    SET serial = greatest(serial + 1, extract(epoch FROM clock_timestamp())::bigint);
    RETURN NULL;
END
$$;

CREATE TRIGGER zoo_entry_confirmed AFTER INSERT ON zoo_entry
    FOR EACH ROW WHEN (NEW.state = 'confirmed') EXECUTE FUNCTION publish_serial();
CREATE TRIGGER zoo_entry_served AFTER UPDATE OF state ON zoo_entry
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND 'confirmed' IN (OLD.state, NEW.state))
    EXECUTE FUNCTION publish_serial();
CREATE TRIGGER denied_decided AFTER INSERT OR UPDATE OR DELETE ON denied
    FOR EACH ROW EXECUTE FUNCTION publish_serial();
