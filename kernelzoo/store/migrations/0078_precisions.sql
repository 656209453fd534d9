-- A model has plans of several precisions for the same dimensions.

ALTER TABLE model_plan
    ADD COLUMN precision text NOT NULL DEFAULT 'f32' CHECK (precision IN ('f32', 'int8')),
    DROP CONSTRAINT model_plan_model_dimensions_f16_key,
    ADD UNIQUE (model, dimensions, f16, precision);
COMMENT ON COLUMN model_plan.precision IS
    'What its products multiply: numbers of f32, or bytes. Pages are given the faster, or what they ask for.';
UPDATE model_plan p SET precision = 'int8'
WHERE EXISTS (
    SELECT FROM model_workload m
    WHERE m.plan_id = p.id
      AND m.workload_key ~ '^(matmul_u8i[78]z?|matmul_u8i8q|depthwise_conv2d_u8i8q)[+:]');

CREATE OR REPLACE VIEW wrong_model AS
    SELECT p.model, p.dimensions, p.f16, w.device_class, count(*) AS networks,
           array_agg(DISTINCT w.output ORDER BY w.output) AS outputs,
           min(w.first_at) AS since, max(w.last_at) AS last_at, p.precision
    FROM wrong_output w JOIN model_plan p ON p.id = w.plan_id
    WHERE w.last_at > now() - interval '30 days'
    GROUP BY p.id, w.device_class;
