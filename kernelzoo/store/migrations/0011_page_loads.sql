-- What monitoring needs to know: which keys pages ask for, and who was lent something lately.

CREATE TABLE page_load (
    name text NOT NULL,
    device_class text NOT NULL,
    loads bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, device_class)
);
COMMENT ON TABLE page_load IS
    'Manifests that gateways answered, those lost in a crash or kept by caches not among them.';
COMMENT ON COLUMN page_load.name IS 'A workload set or a workload''s key, as the page asked.';

CREATE INDEX lease_recent ON lease (created_at);
