-- A page that has a file of ONNX asks for the model that was imported from it.

ALTER TABLE model
    ADD COLUMN source_graph text CHECK (source_graph ~ '^[0-9a-f]{64}$'),
    ADD COLUMN source_weights text CHECK (source_weights ~ '^[0-9a-f]{64}$'),
    ADD CHECK ((source_graph IS NULL) = (source_weights IS NULL));
COMMENT ON COLUMN model.source_graph IS
    'The hash of the file without its weights (services/tuner/graph/source_hashes.py); null where none was told.';
COMMENT ON COLUMN model.source_weights IS 'The hash of the weights of that file.';
CREATE INDEX model_source_graph ON model (source_graph);
