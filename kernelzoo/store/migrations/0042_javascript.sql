-- Kernels in plain JavaScript, for pages without WebAssembly: compiled when a page asks for them, and
-- served without a vote. There is one space of them, as of wasm.

ALTER TABLE tuning_job DROP CONSTRAINT tuning_job_target_check;
ALTER TABLE tuning_job ADD CONSTRAINT tuning_job_target_check
    CHECK (target IN ('wasm', 'webgpu', 'javascript'));
ALTER TABLE tuning_job DROP CONSTRAINT tuning_job_check;
ALTER TABLE tuning_job ADD CONSTRAINT tuning_job_check CHECK ((target <> 'webgpu') = (space = ''));
COMMENT ON COLUMN tuning_job.space IS
    'Name of a kernelzoo.domain.gpu model for webgpu, ''any'' where none is known; '''' for others.';

ALTER TABLE artifact DROP CONSTRAINT artifact_target_check;
ALTER TABLE artifact ADD CONSTRAINT artifact_target_check
    CHECK (target IN ('wasm', 'webgpu', 'javascript'));

ALTER TABLE candidate DROP CONSTRAINT candidate_target_check;
ALTER TABLE candidate ADD CONSTRAINT candidate_target_check
    CHECK (target IN ('wasm', 'webgpu', 'javascript'));

CREATE OR REPLACE FUNCTION space_of(target text, device_id text)
    RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN target <> 'webgpu' THEN ''
                ELSE coalesce((SELECT d.gpu_model FROM device d WHERE d.device_id = $2), 'any') END
$$;
