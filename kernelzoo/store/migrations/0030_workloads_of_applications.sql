-- Rewriting a set leaves no workloads behind, and an application registers so many new ones a day.

CREATE TABLE application_workload (
    application_id bigint NOT NULL REFERENCES application,
    workload_key text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application_id, workload_key)
);
COMMENT ON TABLE application_workload IS
    'Workloads that were new when an application registered them in a set, for a day; those that no '
    'set and no job names any more are gone from `workload`, and still counted here.';

DELETE FROM workload w
WHERE NOT EXISTS (SELECT FROM workload_set s WHERE s.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM tuning_job j WHERE j.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM candidate c WHERE c.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM ballot b WHERE b.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM zoo_entry e WHERE e.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM page_failure f WHERE f.workload_key = w.key)
  AND NOT EXISTS (SELECT FROM common_kernel k WHERE k.workload_key = w.key);
