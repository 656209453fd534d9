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

-- Keys spell their axes out, and candidates are known by a hash of key, target and config: rename
-- all of them in the rows that name them. Artifacts stay as they are.

CREATE FUNCTION respelled(key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE split_part(split_part($1, ':', 1), '+', 1)
        WHEN 'slice' THEN regexp_replace(
            $1, ':m([0-9]+)n([0-9]+)s([0-9]+)k([0-9]+)$', ':m\1n\2start\3size\4')
        WHEN 'pad' THEN regexp_replace(
            $1, ':m([0-9]+)n([0-9]+)p([0-9]+)$', ':m\1n\2pad\3')
        ELSE regexp_replace(
            $1, '^((conv2d|depthwise_conv2d|max_pool2d|avg_pool2d)[a-z0-9_+]*:[a-z0-9]+:b[0-9a-z]+)'
                'r([0-9]+)q([0-9]+)s([0-9]+)p([0-9]+)(:|$)',
            '\1kh\3kw\4stride\5pad\6\7')
        END
$$;

CREATE FUNCTION renamed_setting(config jsonb, was text, now text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN config ? was
                THEN config - was || jsonb_build_object(now, config -> was) ELSE config END
$$;

-- A config tells its family, which its settings have told so far. `rows` is a number of rows of b to
-- unroll in a gemv, and of rows of a block in a reduction.
CREATE FUNCTION field_config(target text, config jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    family text;
BEGIN
    IF target = 'wasm' THEN
        family := CASE
            WHEN config ?& '{tile_m,pack}' THEN 'matmul'
            WHEN config ?& '{rows,vectors,block_n}' THEN 'gemv'
            WHEN config ?& '{tile_x,tile_c}' THEN 'conv'
            WHEN config ?& '{vectors,block_m}' THEN 'reduction'
            WHEN config ?& '{vectors,chunk}' THEN 'elementwise' END;
    ELSE
        family := CASE
            WHEN config ?& '{block_m,tile_m,cache}' THEN 'matmul'
            WHEN config ? 'team' THEN 'reduction'
            WHEN config ?& '{threads,tile_x}' THEN 'conv'
            WHEN config ? 'side' THEN 'transpose'
            WHEN config ?& '{threads,vectors,wide,stride}' THEN 'elementwise' END;
    END IF;
    config := renamed_setting(config, 'halves', 'f16_storage');
    CASE family
        WHEN 'gemv' THEN
            config := renamed_setting(config, 'rows', 'unroll_k');
        WHEN 'matmul' THEN
            config := renamed_setting(config, 'depth', 'sliced_k');
            IF config ->> 'cache' = 'turned' THEN
                config := config || '{"cache": "transposed"}';
            END IF;
        WHEN 'reduction' THEN
            IF target = 'webgpu' THEN
                config := renamed_setting(config, 'team', 'threads_per_row');
                config := renamed_setting(config, 'rows', 'block_m');
                config := renamed_setting(config, 'fan', 'radix');
            END IF;
        WHEN 'transpose' THEN
            config := renamed_setting(config, 'side', 'tile');
        ELSE
            NULL;
    END CASE;
    -- A config of an earlier version that no schedule reads any more tells none.
    RETURN CASE WHEN family IS NULL THEN config
                ELSE config || jsonb_build_object('family', family) END;
END
$$;

CREATE FUNCTION field_manifest(manifest jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    manifest := renamed_setting(manifest, 'kind', 'target');
    IF jsonb_array_length(manifest -> 'tensors') > 0 THEN
        manifest := jsonb_set(manifest, '{tensors}', (
            SELECT jsonb_agg(CASE tensor ->> 'name'
                                 WHEN 'gain' THEN tensor || '{"name": "gamma"}'
                                 WHEN 'shift' THEN tensor || '{"name": "beta"}'
                                 ELSE tensor END ORDER BY place)
            FROM jsonb_array_elements(manifest -> 'tensors') WITH ORDINALITY AS t (tensor, place)));
    END IF;
    IF jsonb_array_length(manifest -> 'layouts') > 0 THEN
        manifest := jsonb_set(manifest, '{layouts}', (
            SELECT jsonb_agg(jsonb_set(layout, '{pack,manifest}',
                                       field_manifest(layout #> '{pack,manifest}')) ORDER BY place)
            FROM jsonb_array_elements(manifest -> 'layouts') WITH ORDINALITY AS l (layout, place)));
    END IF;
    RETURN manifest;
END
$$;

-- As kernelzoo.domain.candidate: the first half of the SHA-256 of Python's
-- json.dumps([key, target, config], sort_keys=True). Names are ASCII without control characters, of
-- which Python and PostgreSQL write the same JSON; numbers are whole.
CREATE FUNCTION id_of(key text, target text, config jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT left(encode(sha256(convert_to(
        '[' || to_json(key)::text || ', ' || to_json(target)::text || ', {' || coalesce((
            SELECT string_agg(to_json(name)::text || ': ' || value::text, ', '
                              ORDER BY name COLLATE "C")
            FROM jsonb_each(config) AS setting (name, value)), '') || '}]', 'UTF8')), 'hex'), 32)
$$;

-- A candidate of which the id is no such hash keeps it.
CREATE TEMPORARY TABLE renamed_candidate ON COMMIT DROP AS
    SELECT candidate_id AS was,
           id_of(respelled(workload_key), target, field_config(target, config)) AS now
    FROM candidate WHERE candidate_id = id_of(workload_key, target, config);
ALTER TABLE renamed_candidate ADD PRIMARY KEY (was);
ANALYZE renamed_candidate;

CREATE FUNCTION field_ids(ids text[]) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(coalesce(r.now, i.id) ORDER BY i.place), '{}')
    FROM unnest(ids) WITH ORDINALITY AS i (id, place) LEFT JOIN renamed_candidate r ON r.was = i.id
$$;

-- Foreign keys are checked row by row: they go, and come back as they were.
CREATE TEMPORARY TABLE reference ON COMMIT DROP AS
    SELECT conrelid::regclass AS relation, conname AS name, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint
    WHERE contype = 'f' AND confrelid IN (
        'workload'::regclass, 'candidate'::regclass, 'lease_item'::regclass);
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT * FROM reference LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', each.relation, each.name);
    END LOOP;
END
$$;

UPDATE workload SET key = respelled(key) WHERE key <> respelled(key);
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY[
        'workload_set', 'tuning_job', 'candidate', 'ballot', 'zoo_entry', 'page_failure',
        'lost_device', 'common_kernel', 'application_workload'] LOOP
        EXECUTE format('UPDATE %I SET workload_key = respelled(workload_key) '
                       'WHERE workload_key <> respelled(workload_key)', each);
    END LOOP;
END
$$;
UPDATE page_load SET name = respelled(name) WHERE name <> respelled(name);
UPDATE ration SET name = respelled(split_part(name, ' ', 1)) || ' ' || split_part(name, ' ', 2)
    WHERE scope = 'key';

UPDATE candidate SET config = field_config(target, config), manifest = field_manifest(manifest);
UPDATE candidate c SET candidate_id = r.now FROM renamed_candidate r WHERE r.was = c.candidate_id;
UPDATE lease l SET reference_id = r.now FROM renamed_candidate r WHERE r.was = l.reference_id;
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY[
        'space_point', 'lease_item', 'measurement', 'zoo_entry', 'outside_evidence',
        'common_kernel'] LOOP
        EXECUTE format('UPDATE %I e SET candidate_id = r.now FROM renamed_candidate r '
                       'WHERE r.was = e.candidate_id', each);
    END LOOP;
END
$$;
UPDATE ballot SET candidate_ids = field_ids(candidate_ids);
UPDATE evaluation_order SET candidate_ids = field_ids(candidate_ids);
UPDATE zoo_entry SET contenders = field_ids(contenders) WHERE contenders <> '{}';

DO $$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT * FROM reference LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s',
                       each.relation, each.name, each.definition);
    END LOOP;
END
$$;

-- A model names the settings, axes and tensors that it was trained on. The next one is trained from
-- the measurements, which stay; with a count of 0 it is due at once.
UPDATE cost_model SET published = false,
    reason = reason || '; withdrawn, as it names settings and axes that have other names now'
    WHERE published;
UPDATE cost_model SET measurements = 0 WHERE version = (SELECT max(version) FROM cost_model);

-- Manifests name the keys, candidates and tensors: what caches hold is of before.
UPDATE publication SET serial = greatest(serial + 1, extract(epoch FROM clock_timestamp())::bigint);

DROP FUNCTION field_ids(text[]);
DROP FUNCTION id_of(text, text, jsonb);
DROP FUNCTION field_manifest(jsonb);
DROP FUNCTION field_config(text, jsonb);
DROP FUNCTION renamed_setting(jsonb, text, text);
DROP FUNCTION respelled(text);
