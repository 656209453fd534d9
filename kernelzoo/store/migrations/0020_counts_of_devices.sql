-- What lists of devices say is counted as it happens, and no longer over every measurement.

ALTER TABLE device ADD COLUMN agents integer NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN last_seen_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN device.agents IS 'Identities that have opened a session on it.';
CREATE INDEX device_recent ON device (last_seen_at);

CREATE TABLE device_class (
    device_class text PRIMARY KEY,
    device_id text NOT NULL REFERENCES device,
    engines text[] NOT NULL,
    peak_gflops double precision NOT NULL,
    identities integer NOT NULL,
    measurements bigint NOT NULL DEFAULT 0,
    last_seen_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE device_class IS
    'Classes that ran an agent, with counts of all that there ever was: what is removed for its age '
    'or erased stays counted here, and names nobody.';
COMMENT ON COLUMN device_class.engines IS 'The last few engines seen, each with its major version.';
COMMENT ON COLUMN device_class.peak_gflops IS 'The largest of its sessions.';
COMMENT ON COLUMN device_class.identities IS 'That have opened a session on it.';
COMMENT ON COLUMN device_class.measurements IS 'That were given a verdict.';
CREATE INDEX device_class_device ON device_class (device_id);

UPDATE device d SET agents = s.agents, last_seen_at = s.last_seen_at
FROM (SELECT device_id, count(DISTINCT identity_id) AS agents, max(created_at) AS last_seen_at
      FROM agent_session GROUP BY device_id) s
WHERE s.device_id = d.device_id;

INSERT INTO device_class
    (device_class, device_id, engines, peak_gflops, identities, measurements, last_seen_at)
SELECT s.device_class, min(s.device_id),
       (array_agg(DISTINCT concat_ws(' ', s.engine_name,
                                     nullif(split_part(s.engine_version, '.', 1), ''))))[1:8],
       max(s.peak_gflops), count(DISTINCT s.identity_id),
       coalesce(min(m.measurements), 0), max(s.created_at)
FROM agent_session s
LEFT JOIN (SELECT device_class, count(*) AS measurements FROM measurement
           WHERE verdict <> 'pending' GROUP BY device_class) m USING (device_class)
GROUP BY s.device_class;

CREATE OR REPLACE VIEW coverage AS
    SELECT j.workload_key, c.device_class, coalesce(e.state, 'missing') AS state,
           coalesce(l.loads, 0) AS loads, e.relative_time, e.candidate_id
    FROM (SELECT device_class FROM device_class UNION SELECT device_class FROM page_load) c
    JOIN (SELECT DISTINCT workload_key, kind FROM tuning_job) j
      ON j.kind = split_part(split_part(c.device_class, ':', 3), '+', 1)
    LEFT JOIN zoo_entry e ON e.workload_key = j.workload_key
        AND e.device_class = c.device_class AND e.state <> 'retired'
    LEFT JOIN LATERAL (
        SELECT sum(p.loads) AS loads FROM page_load p
        WHERE p.device_class = c.device_class
          AND (p.name = j.workload_key OR EXISTS (
              SELECT FROM workload_set s
              WHERE s.name = p.name AND s.workload_key = j.workload_key))
    ) l ON true;
