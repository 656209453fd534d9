CREATE TABLE cost_model (
    version integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    body bytea NOT NULL,
    published boolean NOT NULL,
    reason text NOT NULL,
    evaluation jsonb NOT NULL,
    measurements bigint NOT NULL,
    trained_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cost_model IS 'Every model that was trained. The latest published one is served.';
COMMENT ON COLUMN cost_model.measurements IS 'Verified measurements that there were when it was trained.';
CREATE INDEX cost_model_served ON cost_model (version) WHERE published;

CREATE TABLE evaluation_order (
    job_id bigint NOT NULL REFERENCES tuning_job,
    device_class text NOT NULL,
    model_version integer NOT NULL,
    candidate_ids text[] NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, device_class)
);
COMMENT ON TABLE evaluation_order IS 'What a device class measures first, as a model foretells it.';
COMMENT ON COLUMN evaluation_order.model_version IS '0: by promise and outside evidence alone.';

CREATE TABLE outside_evidence (
    source text NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    device text NOT NULL,
    relative_time double precision NOT NULL CHECK (relative_time > 0),
    imported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, candidate_id, device)
);
COMMENT ON TABLE outside_evidence IS 'What files of other tuners claim. It seeds the order of evaluation and is never counted.';
COMMENT ON COLUMN outside_evidence.relative_time IS 'Over the fastest that the source names for the workload.';
CREATE INDEX outside_evidence_candidate ON outside_evidence (candidate_id);

-- Every quarter of a minute it is asked which device classes are at work.
CREATE INDEX agent_session_recent ON agent_session (created_at);
