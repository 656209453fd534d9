-- A page that has the author's file takes weights from it, by a file that says which.

ALTER TABLE model_plan
    ADD COLUMN original_sha256 text CHECK (original_sha256 ~ '^[0-9a-f]{64}$'),
    ADD COLUMN original_bytes bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN model_plan.original_sha256 IS
    'The file that says which weights lie in the file that the model was imported from (services/tuner/graph/original_map.py).';
