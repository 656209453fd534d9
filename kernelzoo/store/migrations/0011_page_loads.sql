-- What monitoring needs to know: which keys pages ask for.

CREATE TABLE page_load (
    name text NOT NULL,
    device_class text NOT NULL,
    loads bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, device_class)
);
COMMENT ON TABLE page_load IS
    'Manifests that gateways answered, those lost in a crash or kept by caches not among them.';
COMMENT ON COLUMN page_load.name IS 'A workload set or a workload''s key, as the page asked.';

CREATE VIEW coverage AS
    SELECT j.workload_key, c.device_class, coalesce(e.state, 'missing') AS state,
           coalesce(l.loads, 0) AS loads, e.relative_time, e.candidate_id
    FROM (SELECT device_class FROM agent_session UNION SELECT device_class FROM page_load) c
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
COMMENT ON VIEW coverage IS
    'Every workload on every class of devices that ran an agent or asked for it: its live entry or '
    '''missing'' in its place, and the page loads that asked for it.';
