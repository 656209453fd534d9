-- Networks that pages run whole: their plans by dimensions, and the workloads that each plan calls.

CREATE TABLE model (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    source text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE model IS
    'Networks that pages run whole. Plans, weights and golden outputs are files by their hash '
    '(services/gateway/blobs.py).';
COMMENT ON COLUMN model.source IS 'The file that it was imported from, as whoever did says.';

CREATE TABLE model_plan (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model text NOT NULL REFERENCES model ON DELETE CASCADE,
    position integer NOT NULL,
    dimensions jsonb NOT NULL,
    plan_sha256 text NOT NULL CHECK (plan_sha256 ~ '^[0-9a-f]{64}$'),
    plan_bytes bigint NOT NULL,
    weights_sha256 text CHECK (weights_sha256 ~ '^[0-9a-f]{64}$'),
    weights_bytes bigint NOT NULL,
    weights_url text NOT NULL DEFAULT '',
    golden_sha256 text NOT NULL CHECK (golden_sha256 ~ '^[0-9a-f]{64}$'),
    golden_bytes bigint NOT NULL,
    UNIQUE (model, dimensions),
    UNIQUE (model, position),
    CHECK ((weights_sha256 IS NULL) = (weights_url <> ''))
);
COMMENT ON COLUMN model_plan.dimensions IS 'What the model leaves open, as {"batch": 1, "sequence": 128}.';
COMMENT ON COLUMN model_plan.weights_url IS 'Where the author keeps the weights; '''' where the zoo does.';

CREATE TABLE model_workload (
    plan_id bigint NOT NULL REFERENCES model_plan ON DELETE CASCADE,
    position integer NOT NULL,
    workload_key text NOT NULL REFERENCES workload,
    calls integer NOT NULL CHECK (calls > 0),
    PRIMARY KEY (plan_id, position),
    UNIQUE (plan_id, workload_key)
);
COMMENT ON TABLE model_workload IS 'The kernels of a plan in its order, and how often an inference calls each.';
CREATE INDEX model_workload_key ON model_workload (workload_key);

CREATE TABLE linked_module (
    sha256 text PRIMARY KEY REFERENCES artifact,
    linked_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE linked_module IS
    'Artifacts that hold the kernels of a plan for some class. They are made anew when they are gone.';
COMMENT ON COLUMN linked_module.linked_at IS 'When a gateway last named it, to the day.';
CREATE INDEX linked_module_age ON linked_module (linked_at);

ALTER TABLE tuning_job ADD COLUMN priority double precision NOT NULL DEFAULT 1;
COMMENT ON COLUMN tuning_job.priority IS
    'Agents take the highest first. Of a job that was opened for models alone it is the largest share '
    'of an inference that the workload takes; of one that somebody asked for it is 1.';

CREATE OR REPLACE VIEW coverage AS
    SELECT j.workload_key, c.device_class, coalesce(e.state, 'missing') AS state,
           coalesce(l.loads, 0) AS loads, e.relative_time, e.candidate_id
    FROM (SELECT device_class, target FROM device_class
          UNION SELECT device_class, target FROM page_load) c
    JOIN (SELECT DISTINCT workload_key, target FROM tuning_job) j ON j.target = c.target
    LEFT JOIN zoo_entry e ON e.workload_key = j.workload_key
        AND e.device_class = c.device_class AND e.state <> 'retired'
    LEFT JOIN LATERAL (
        SELECT sum(p.loads) AS loads FROM page_load p
        WHERE p.device_class = c.device_class
          AND (p.name = j.workload_key OR EXISTS (
              SELECT FROM workload_set s
              WHERE s.name = p.name AND s.workload_key = j.workload_key)
          OR EXISTS (
              SELECT FROM model_plan m JOIN model_workload w ON w.plan_id = m.id
              WHERE 'model:' || m.model = p.name AND w.workload_key = j.workload_key))
    ) l ON true;
COMMENT ON COLUMN page_load.name IS
    'A workload set or a workload''s key, as the page asked, or ''model:'' and the name of a model.';

CREATE FUNCTION expected_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT t.best_ns FROM zoo_entry e
         CROSS JOIN LATERAL kernel_time(e.candidate_id, $2) t
         WHERE e.workload_key = $1 AND e.device_class = $2 AND e.state <> 'retired'),
        (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY recent.best_ns)
         FROM (
            SELECT (SELECT min(ns) FROM unnest(m.reference_ns) ns) AS best_ns
            FROM candidate c JOIN measurement m ON m.candidate_id = c.candidate_id
            WHERE c.workload_key = $1 AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified'
            ORDER BY m.created_at DESC LIMIT 64
         ) AS recent))
$$;
COMMENT ON FUNCTION expected_time IS
    'Nanoseconds of one call on a class: of the kernel of its live entry, or of the default kernel as '
    'it was measured beside others; null where nobody has measured either.';

CREATE VIEW model_coverage AS
    SELECT p.model, p.dimensions, p.position, c.device_class,
           count(*) AS workloads,
           count(*) FILTER (WHERE c.state = 'confirmed') AS confirmed,
           count(*) FILTER (WHERE c.state = 'provisional') AS provisional,
           (sum(m.calls * w.flops) FILTER (WHERE c.state = 'confirmed')
               / sum(m.calls * w.flops))::double precision AS confirmed_flops,
           max(loaded.loads) AS loads
    FROM model_plan p
    JOIN model_workload m ON m.plan_id = p.id
    JOIN workload w ON w.key = m.workload_key
    JOIN coverage c ON c.workload_key = m.workload_key AND target_of(c.device_class) = 'wasm'
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(l.loads), 0)::bigint AS loads FROM page_load l
        WHERE l.name = 'model:' || p.model AND l.device_class = c.device_class
    ) loaded
    GROUP BY p.id, c.device_class;
COMMENT ON VIEW model_coverage IS
    'Every plan of a model on every class of devices: how many of its workloads are confirmed, which '
    'share of its floating-point operations they are, and the page loads of the model.';

CREATE FUNCTION model_time(plan_id bigint, device_class text)
    RETURNS TABLE (elapsed_ns double precision, measured double precision)
    LANGUAGE sql STABLE AS $$
    WITH timed AS (
        SELECT m.calls, w.flops, expected_time(m.workload_key, $2) AS ns
        FROM model_workload m JOIN workload w ON w.key = m.workload_key
        WHERE m.plan_id = $1
    ), rate AS (
        SELECT sum(calls * ns) / sum(calls * flops) AS ns_per_flop
        FROM timed WHERE ns IS NOT NULL
    )
    SELECT sum(calls * coalesce(ns, flops * ns_per_flop)),
           coalesce(sum(calls * flops) FILTER (WHERE ns IS NOT NULL) / sum(calls * flops), 0)
               ::double precision
    FROM timed CROSS JOIN rate
$$;
COMMENT ON FUNCTION model_time IS
    'Nanoseconds of an inference as the sum of its calls, and which share of its floating-point '
    'operations was measured; the rest is taken to run as fast. Null while nothing is measured.';
