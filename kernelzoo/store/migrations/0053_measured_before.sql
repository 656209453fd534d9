-- Counts what was measured before job_progress was kept. What takes time reads, and locks nothing;
-- reports wait only while the sums are written.

SET LOCAL work_mem = '256MB';

CREATE TEMPORARY TABLE counted ON COMMIT DROP AS
    SELECT l.job_id, m.device_class, count(DISTINCT m.identity_id) AS agents,
           count(DISTINCT m.candidate_id) AS candidates,
           count(*) FILTER (WHERE m.outcome = 'ok' AND m.verdict <> 'rejected') AS ok,
           count(*) FILTER (WHERE m.outcome = 'validate') AS validate,
           count(*) FILTER (WHERE m.outcome = 'compile') AS compile,
           count(*) FILTER (WHERE m.outcome = 'run') AS run,
           count(*) FILTER (WHERE m.outcome = 'compare') AS compare,
           count(*) FILTER (WHERE m.outcome = 'timeout') AS timeout,
           count(*) FILTER (WHERE m.verdict = 'rejected') AS rejected,
           min(m.best_ns) FILTER (WHERE m.verdict IN ('pending', 'verified')) AS best_ns,
           min(l.created_at) AS begun_at, max(m.created_at) AS last_at
    FROM measurement m JOIN lease l ON l.id = m.lease_id
    WHERE m.job_id IS NULL
    GROUP BY l.job_id, m.device_class;

CREATE TEMPORARY TABLE improved ON COMMIT DROP AS
    SELECT job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id
    FROM (
        SELECT l.job_id, m.device_class, m.best_ns, m.lease_id, m.candidate_id, m.verdict,
               row_number() OVER made AS round,
               extract(epoch FROM m.created_at - min(l.created_at) OVER (
                   PARTITION BY l.job_id, m.device_class)) AS elapsed_s,
               min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                   OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
        FROM measurement m JOIN lease l ON l.id = m.lease_id
        WHERE m.job_id IS NULL
        WINDOW made AS (PARTITION BY l.job_id, m.device_class
                        ORDER BY m.created_at, m.candidate_id, m.lease_id)
    ) rounds
    WHERE verdict <> 'rejected' AND best_ns < coalesce(before_ns, 'infinity');

LOCK TABLE job_progress, improvement IN SHARE ROW EXCLUSIVE MODE;

CREATE TEMPORARY TABLE since ON COMMIT DROP AS
    SELECT i.job_id, i.device_class, i.round + c.ok + c.validate + c.compile + c.run + c.compare
               + c.timeout + c.rejected AS round,
           i.elapsed_s + extract(epoch FROM p.begun_at - least(p.begun_at, c.begun_at))
               AS elapsed_s,
           i.best_ns, i.lease_id, i.candidate_id
    FROM improvement i
    JOIN job_progress p USING (job_id, device_class)
    JOIN counted c USING (job_id, device_class)
    WHERE i.best_ns < coalesce((
        SELECT min(o.best_ns) FROM improved o
        WHERE o.job_id = i.job_id AND o.device_class = i.device_class), 'infinity');
DELETE FROM improvement i USING counted c
WHERE i.job_id = c.job_id AND i.device_class = c.device_class;

INSERT INTO job_progress AS p
    (job_id, device_class, agents, candidates, ok, validate, compile, run, compare, timeout,
     rejected, best_ns, begun_at, last_at)
SELECT job_id, device_class, agents, candidates, ok, validate, compile, run, compare, timeout,
       rejected, best_ns, begun_at, last_at
FROM counted
ON CONFLICT (job_id, device_class) DO UPDATE SET
    agents = p.agents + EXCLUDED.agents, candidates = p.candidates + EXCLUDED.candidates,
    ok = p.ok + EXCLUDED.ok, validate = p.validate + EXCLUDED.validate,
    compile = p.compile + EXCLUDED.compile, run = p.run + EXCLUDED.run,
    compare = p.compare + EXCLUDED.compare, timeout = p.timeout + EXCLUDED.timeout,
    rejected = p.rejected + EXCLUDED.rejected, best_ns = least(p.best_ns, EXCLUDED.best_ns),
    begun_at = least(p.begun_at, EXCLUDED.begun_at), last_at = greatest(p.last_at, EXCLUDED.last_at);

INSERT INTO improvement (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
SELECT job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id FROM improved
UNION ALL
SELECT job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id FROM since;
