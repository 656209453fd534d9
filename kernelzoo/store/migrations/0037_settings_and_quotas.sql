-- Settings that came after 0032, or that it left, in the words of the field: weights that a pack
-- kernel has copied are prepacked, a block of a Winograd convolution has `block_y` rows, as one of
-- other convolutions, and a thread that makes four neighbours at once does so by `vec4`, as the
-- primitive is called. What strangers are lent on a day is a quota.

ALTER TABLE ration RENAME TO lending_quota;
ALTER TABLE lending_quota RENAME CONSTRAINT ration_pkey TO lending_quota_pkey;
ALTER TABLE lending_quota RENAME CONSTRAINT ration_scope_check TO lending_quota_scope_check;

-- PostgreSQL 18 names NOT NULL constraints after the table; earlier ones have no such names.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT conname AS name FROM pg_constraint
        WHERE contype = 'n' AND conrelid = 'lending_quota'::regclass AND conname LIKE 'ration\_%'
    LOOP
        EXECUTE format('ALTER TABLE lending_quota RENAME CONSTRAINT %I TO %I',
                       found.name, 'lending_quota' || substr(found.name, 7));
    END LOOP;
END
$$;

-- Candidates are known by a hash of key, target and config: rename all of them in the rows that name
-- them, as 0032 does. Artifacts stay as they are.

CREATE FUNCTION renamed_setting(config jsonb, was text, now text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN config ? was
                THEN config - was || jsonb_build_object(now, config -> was) ELSE config END
$$;

CREATE FUNCTION field_config(target text, config jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE target || ' ' || (config ->> 'family')
        WHEN 'wasm winograd' THEN renamed_setting(config, 'rows', 'block_y')
        WHEN 'webgpu elementwise' THEN renamed_setting(config, 'wide', 'vec4')
        WHEN 'webgpu conv' THEN renamed_setting(config, 'whole_vectors', 'vec4')
        ELSE CASE WHEN config ->> 'pack' = 'before'
                  THEN config || '{"pack": "prepacked"}' ELSE config END
        END
$$;

-- As kernelzoo.domain.candidate: the first half of the SHA-256 of Python's
-- json.dumps([key, target, config], sort_keys=True).
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
    SELECT candidate_id AS was, id_of(workload_key, target, field_config(target, config)) AS now
    FROM candidate
    WHERE field_config(target, config) <> config
      AND candidate_id = id_of(workload_key, target, config);
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
    WHERE contype = 'f' AND confrelid IN ('candidate'::regclass, 'lease_item'::regclass);
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT * FROM reference LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', each.relation, each.name);
    END LOOP;
END
$$;

UPDATE candidate SET config = field_config(target, config)
    WHERE field_config(target, config) <> config;
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
UPDATE ballot SET candidate_ids = field_ids(candidate_ids)
    WHERE candidate_ids && ARRAY(SELECT was FROM renamed_candidate);
UPDATE evaluation_order SET candidate_ids = field_ids(candidate_ids)
    WHERE candidate_ids && ARRAY(SELECT was FROM renamed_candidate);
UPDATE zoo_entry SET contenders = field_ids(contenders)
    WHERE contenders && ARRAY(SELECT was FROM renamed_candidate);

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

-- A model names the settings that it was trained on. The next one is trained from the measurements,
-- which stay; with a count of 0 it is due at once.
UPDATE cost_model SET published = false,
    reason = reason || '; withdrawn, as it names settings that have other names now'
    WHERE published;
UPDATE cost_model SET measurements = 0 WHERE version = (SELECT max(version) FROM cost_model);

-- Manifests name the candidates: what caches hold is of before.
UPDATE publication SET serial = greatest(serial + 1, extract(epoch FROM clock_timestamp())::bigint);

DROP FUNCTION field_ids(text[]);
DROP FUNCTION id_of(text, text, jsonb);
DROP FUNCTION field_config(text, jsonb);
DROP FUNCTION renamed_setting(jsonb, text, text);
