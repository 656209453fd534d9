-- Applications: who may register workload sets and open tuning jobs, from which origins their agents
-- come, and how much of it. Sets of before belong to nobody but the operator.

CREATE TABLE application (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    key_hash text NOT NULL CHECK (key_hash ~ '^[0-9a-f]{64}$'),
    origins text[] NOT NULL,
    jobs_per_day integer NOT NULL CHECK (jobs_per_day >= 0),
    sets integer NOT NULL CHECK (sets >= 0),
    workloads_per_set integer NOT NULL CHECK (workloads_per_set >= 0),
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN application.key_hash IS 'SHA-256 of the secret part of its key, which nobody keeps.';
COMMENT ON COLUMN application.origins IS 'Of the pages whose agents may open sessions in its name.';

CREATE TABLE application_set (
    name text PRIMARY KEY,
    application_id bigint NOT NULL REFERENCES application
);
COMMENT ON TABLE application_set IS 'Who owns a workload set; the operator, where it is not here.';
CREATE INDEX application_set_owner ON application_set (application_id);

CREATE TABLE application_job (
    application_id bigint NOT NULL REFERENCES application,
    job_id bigint NOT NULL REFERENCES tuning_job,
    asked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application_id, job_id)
);
COMMENT ON TABLE application_job IS 'Which jobs an application asked for; several may ask for one.';

ALTER TABLE agent_session ADD COLUMN application_id bigint REFERENCES application;
COMMENT ON COLUMN agent_session.application_id IS 'In whose name; null where it measures for all.';

CREATE FUNCTION is_for(application_id bigint, workload_key text)
    RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT $1 IS NULL OR EXISTS (
        SELECT FROM application_set a JOIN workload_set s ON s.name = a.name
        WHERE a.application_id = $1 AND s.workload_key = $2)
$$;
COMMENT ON FUNCTION is_for IS 'Whether a session in this name measures a workload; in none, it measures all.';
