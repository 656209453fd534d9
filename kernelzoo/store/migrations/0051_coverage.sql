-- Coverage is a table: what a key is served and takes, kept by whoever writes an entry or counts
-- ballots, and the page loads that asked for it, kept by the clock. The view took minutes.

DROP VIEW model_coverage;
DROP VIEW coverage;

CREATE TABLE coverage (
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    device_class text NOT NULL,
    state text NOT NULL DEFAULT 'missing'
        CHECK (state IN ('missing', 'provisional', 'confirmed')),
    loads bigint NOT NULL DEFAULT 0,
    relative_time double precision,
    candidate_id text,
    best_ns double precision,
    reference_ns double precision,
    noted_at timestamptz,
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    PRIMARY KEY (workload_key, device_class)
);
COMMENT ON TABLE coverage IS
    'Keys that have an entry, were measured or asked for by pages: the live entry or ''missing'' in '
    'its place, and the page loads that asked for it. A key that is none of these has no row.';
COMMENT ON COLUMN coverage.loads IS 'As the clock last added them up; page_load has them as they come.';
COMMENT ON COLUMN coverage.best_ns IS
    'kernel_time of the live entry when its ballots were last counted; null without an entry.';
COMMENT ON COLUMN coverage.reference_ns IS
    'Of the default kernel beside others, the median of the latest, when ballots were last counted.';
COMMENT ON COLUMN coverage.noted_at IS
    'When its times were last looked up; null where only an upgrade or page loads made the row, and '
    'the clock has yet to do so.';
CREATE INDEX coverage_unnoted ON coverage (state) WHERE noted_at IS NULL;
CREATE INDEX coverage_class ON coverage (device_class);
CREATE INDEX coverage_unconfirmed ON coverage (loads DESC) WHERE state <> 'confirmed';

ALTER TABLE page_load ADD COLUMN covered_at timestamptz;
COMMENT ON COLUMN page_load.covered_at IS 'When its loads were last added to coverage.';

CREATE FUNCTION reference_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY recent.best_ns)
    FROM (
        SELECT latest.best_ns FROM candidate c
        CROSS JOIN LATERAL (
            SELECT m.created_at, (SELECT min(ns) FROM unnest(m.reference_ns) ns) AS best_ns
            FROM measurement m
            WHERE m.candidate_id = c.candidate_id AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified'
            ORDER BY m.created_at DESC LIMIT 8
        ) latest
        WHERE c.workload_key = $1 AND c.target = target_of($2)
        ORDER BY latest.created_at DESC LIMIT 64
    ) recent
$$;
COMMENT ON FUNCTION reference_time IS
    'Nanoseconds of one call of the default kernel as it was measured beside others: the median of '
    'the latest 64, of a candidate the latest eight; null without any.';

CREATE FUNCTION cover_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'retired' THEN
        UPDATE coverage
        SET state = 'missing', relative_time = NULL, candidate_id = NULL, best_ns = NULL
        WHERE workload_key = NEW.workload_key AND device_class = NEW.device_class;
    ELSE
        INSERT INTO coverage
            (workload_key, device_class, state, relative_time, candidate_id, best_ns, reference_ns,
             noted_at)
        SELECT NEW.workload_key, NEW.device_class, NEW.state, NEW.relative_time, NEW.candidate_id,
               t.best_ns, reference_time(NEW.workload_key, NEW.device_class), now()
        FROM kernel_time(NEW.candidate_id, NEW.device_class) t
        ON CONFLICT (workload_key, device_class) DO UPDATE SET
            state = EXCLUDED.state, relative_time = EXCLUDED.relative_time,
            candidate_id = EXCLUDED.candidate_id, best_ns = EXCLUDED.best_ns,
            reference_ns = EXCLUDED.reference_ns, noted_at = EXCLUDED.noted_at;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cover_entry IS 'Brings the row of coverage up to date that an entry is of.';

CREATE TRIGGER zoo_entry_covered AFTER INSERT OR UPDATE OF state, relative_time ON zoo_entry
    FOR EACH ROW EXECUTE FUNCTION cover_entry();

-- Their times are looked up by the clock: that takes minutes where much was measured.
INSERT INTO coverage (workload_key, device_class, state, relative_time, candidate_id)
SELECT workload_key, device_class, state, relative_time, candidate_id
FROM zoo_entry WHERE state <> 'retired';

CREATE OR REPLACE FUNCTION expected_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce(c.best_ns, c.reference_ns) FROM coverage c
    WHERE c.workload_key = $1 AND c.device_class = $2
$$;
COMMENT ON FUNCTION expected_time IS
    'Nanoseconds of one call on a class: of the kernel of its live entry, or of the default kernel as '
    'it was measured beside others; null where nobody has measured either. As of the last count of '
    'ballots.';

CREATE VIEW model_coverage AS
    WITH planned AS (
        SELECT m.plan_id, count(*) AS workloads, sum(m.calls * w.flops) AS flops
        FROM model_workload m JOIN workload w ON w.key = m.workload_key GROUP BY m.plan_id
    ), entered AS (
        SELECT m.plan_id, e.device_class, e.state, m.calls * w.flops AS flops
        FROM model_workload m
        JOIN workload w ON w.key = m.workload_key
        JOIN zoo_entry e ON e.workload_key = m.workload_key AND e.state <> 'retired'
            AND e.target = 'wasm'
    ), found AS (
        SELECT plan_id, device_class, count(*) FILTER (WHERE state = 'confirmed') AS confirmed,
               count(*) FILTER (WHERE state = 'provisional') AS provisional,
               sum(flops) FILTER (WHERE state = 'confirmed') AS confirmed_flops
        FROM entered GROUP BY plan_id, device_class
    ), class AS (
        SELECT p.id AS plan_id, c.device_class
        FROM model_plan p CROSS JOIN device_class c WHERE c.target = 'wasm'
        UNION
        SELECT p.id, l.device_class
        FROM model_plan p JOIN page_load l ON l.name = 'model:' || p.model AND l.target = 'wasm'
        UNION
        SELECT plan_id, device_class FROM found
    )
    SELECT p.model, p.dimensions, p.position, class.device_class, planned.workloads,
           coalesce(found.confirmed, 0) AS confirmed,
           coalesce(found.provisional, 0) AS provisional,
           (found.confirmed_flops / planned.flops)::double precision AS confirmed_flops,
           coalesce(l.loads, 0) AS loads
    FROM class
    JOIN model_plan p ON p.id = class.plan_id
    JOIN planned ON planned.plan_id = class.plan_id
    LEFT JOIN found ON found.plan_id = class.plan_id AND found.device_class = class.device_class
    LEFT JOIN page_load l ON l.name = 'model:' || p.model AND l.device_class = class.device_class;
COMMENT ON VIEW model_coverage IS
    'Every plan of a model on every class of devices that ran an agent or asked for it: how many of '
    'its workloads are confirmed, which share of its floating-point operations they are, and the page '
    'loads of the model.';
