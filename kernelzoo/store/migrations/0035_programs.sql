-- What no operator names: programs of tensor expressions, by the keys of their workloads.

CREATE TABLE program (
    key text PRIMARY KEY CHECK (key ~ '^program:[a-z0-9_]{1,40}:[0-9a-f]{16}$'),
    text text NOT NULL CHECK (octet_length(text) <= 65536),
    roundings double precision CHECK (roundings >= 0),
    registered_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE program IS
    'Programs by key, which ends in a hash of the text. Rows never change but for `roundings`.';
COMMENT ON COLUMN program.roundings IS
    'By how many roundings to f32 two right results may differ; null until a job of it is planned.';
