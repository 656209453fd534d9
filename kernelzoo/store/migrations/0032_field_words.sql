-- Stored names in the words of the field: what a kernel is for is its target, a row of which the
-- message is sent again is requeued, and a lease that ends an agent's share is complete.

ALTER TABLE tuning_job RENAME COLUMN kind TO target;
ALTER TABLE tuning_job RENAME COLUMN rung_at TO requeued_at;
ALTER TABLE tuning_job RENAME CONSTRAINT tuning_job_kind_check TO tuning_job_target_check;
ALTER TABLE tuning_job RENAME CONSTRAINT tuning_job_workload_key_kind_space_key
    TO tuning_job_workload_key_target_space_key;
ALTER TABLE artifact RENAME COLUMN kind TO target;
ALTER TABLE artifact RENAME CONSTRAINT artifact_kind_check TO artifact_target_check;
ALTER TABLE candidate RENAME COLUMN kind TO target;
ALTER TABLE candidate RENAME COLUMN rung_at TO requeued_at;
ALTER TABLE candidate RENAME CONSTRAINT candidate_kind_check TO candidate_target_check;
ALTER TABLE measurement RENAME COLUMN rung_at TO requeued_at;
ALTER TABLE ballot RENAME COLUMN rung_at TO requeued_at;
ALTER TABLE page_failure RENAME COLUMN rung_at TO requeued_at;
ALTER TABLE lease RENAME COLUMN closing TO complete;
ALTER INDEX lease_closing RENAME TO lease_complete;

-- PostgreSQL 18 names NOT NULL constraints after the columns; earlier ones have no such names.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT conrelid::regclass AS relation, conname AS name,
               regexp_replace(regexp_replace(regexp_replace(
                   conname, '_kind_not_null$', '_target_not_null'),
                   '_rung_at_not_null$', '_requeued_at_not_null'),
                   '^lease_closing_not_null$', 'lease_complete_not_null') AS new_name
        FROM pg_constraint WHERE contype = 'n' AND connamespace = current_schema()::regnamespace
    LOOP
        IF found.name <> found.new_name THEN
            EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I',
                           found.relation, found.name, found.new_name);
        END IF;
    END LOOP;
END
$$;

DROP FUNCTION space_of(text, text);
CREATE FUNCTION space_of(target text, device_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN target = 'wasm' THEN ''
                ELSE coalesce((SELECT d.gpu_model FROM device d WHERE d.device_id = $2), 'any') END
$$;
COMMENT ON FUNCTION space_of IS 'The space in which a device is measured; a stranger''s GPU is any.';

-- The next migration writes default_kernel, servable and coverage anew, with these names.
