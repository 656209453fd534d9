-- A class that loses two devices at one workload is lent nothing more of it for a week.

CREATE TABLE lost_device (
    device_class text NOT NULL,
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    why text NOT NULL,
    lost_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE lost_device IS
    'Browsers of the operator''s fleet that were ended at a workload: their GPU no longer answered, '
    'or they took too much memory.';
CREATE INDEX lost_device_of ON lost_device (workload_key, device_class, lost_at);

CREATE FUNCTION skipping(key text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT device_class FROM lost_device
    WHERE workload_key = $1 AND lost_at > now() - interval '7 days'
    GROUP BY device_class HAVING count(*) >= 2 ORDER BY device_class
$$;
COMMENT ON FUNCTION skipping IS
    'Classes that are lent nothing of a workload: two of their devices were lost at it within seven '
    'days.';
