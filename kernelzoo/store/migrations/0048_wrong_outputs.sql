-- Pages say where a model computes wrong outputs although its kernels are the defaults.

CREATE TABLE wrong_output (
    plan_id bigint NOT NULL REFERENCES model_plan ON DELETE CASCADE,
    device_class text NOT NULL,
    network text NOT NULL,
    output text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (plan_id, device_class, network)
);
COMMENT ON TABLE wrong_output IS
    'Plans whose golden outputs a visitor''s page computed wrongly although it ran default kernels; a '
    'network has one voice for each class. They inform the operator and decide nothing.';
COMMENT ON COLUMN wrong_output.output IS 'The first output that was wrong, as the network said last.';
CREATE INDEX wrong_output_network ON wrong_output (network, first_at);

CREATE VIEW wrong_model AS
    SELECT p.model, p.dimensions, p.f16, w.device_class, count(*) AS networks,
           array_agg(DISTINCT w.output ORDER BY w.output) AS outputs,
           min(w.first_at) AS since, max(w.last_at) AS last_at
    FROM wrong_output w JOIN model_plan p ON p.id = w.plan_id
    WHERE w.last_at > now() - interval '30 days'
    GROUP BY p.id, w.device_class;
COMMENT ON VIEW wrong_model IS
    'Plans that pages of a class found wrong with default kernels, on how many networks and since when; '
    'what nobody has said again for 30 days is left out.';
