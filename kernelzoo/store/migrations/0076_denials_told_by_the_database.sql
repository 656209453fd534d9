-- A denial is told by the row itself, so that gateways of this version and of the one before hear of it
-- whoever writes it: while both run, workers and gateways of either do.

CREATE FUNCTION tell_denied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('kernelzoo_denied', NEW.artifact_sha256 || chr(10) || NEW.device_class);
    -- Gateways of 0.1.0 listen to this alone.
    PERFORM pg_notify('kernelzoo_zoo', '');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION tell_denied IS
    'Makes gateways forget all manifests they hold, and caches before them those of the device.';

CREATE TRIGGER denied_told AFTER INSERT ON denied
    FOR EACH ROW WHEN (NEW.denied) EXECUTE FUNCTION tell_denied();
CREATE TRIGGER denied_told_anew AFTER UPDATE ON denied
    FOR EACH ROW WHEN (NEW.denied AND (NEW.decided_at <> OLD.decided_at
                                       OR NEW.device_wide AND NOT OLD.device_wide))
    EXECUTE FUNCTION tell_denied();
