-- A model may have a second plan of the same dimensions whose values are f16, for GPUs.

ALTER TABLE model_plan ADD COLUMN f16 boolean NOT NULL DEFAULT false;
ALTER TABLE model_plan DROP CONSTRAINT model_plan_model_dimensions_key;
ALTER TABLE model_plan ADD UNIQUE (model, dimensions, f16);
COMMENT ON COLUMN model_plan.f16 IS
    'Whether its values are f16 in memory: pages with WebGPU are given it, others the plan of f32.';
