-- What devices of all classes measured of a candidate lately is kept as ballots are counted: a page
-- that tunes its model asks for thousands of candidates, and to look up their latest measurements
-- read as many places of an index that does not fit into memory.

CREATE TABLE candidate_time (
    workload_key text NOT NULL REFERENCES workload,
    candidate_id text NOT NULL REFERENCES candidate,
    relative_time double precision,
    PRIMARY KEY (workload_key, candidate_id)
);
COMMENT ON TABLE candidate_time IS
    'What devices of all classes measured of a candidate lately: the median of its latest verified '
    'relative times, as of the last count of ballots of its workload on any class; null where none '
    'counts.';

INSERT INTO candidate_time (workload_key, candidate_id, relative_time)
SELECT c.workload_key, c.candidate_id, t.relative_time
FROM candidate c
CROSS JOIN LATERAL (
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.relative_time) AS relative_time
    FROM (
        SELECT m.relative_time FROM measurement m
        WHERE m.candidate_id = c.candidate_id AND m.outcome = 'ok'
          AND m.verdict = 'verified' AND m.relative_time IS NOT NULL
        ORDER BY m.created_at DESC LIMIT 32
    ) latest
) t;
