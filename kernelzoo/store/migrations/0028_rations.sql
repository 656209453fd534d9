-- How many candidates strangers were lent on a day, by whom and for what.

CREATE TABLE ration (
    day date NOT NULL,
    scope text NOT NULL CHECK (scope IN ('class', 'key', 'network')),
    name text NOT NULL,
    candidates integer NOT NULL,
    PRIMARY KEY (day, scope, name)
);
COMMENT ON TABLE ration IS
    'Candidates that strangers were lent on a day (UTC) in a network, on a device class, and of a '
    'workload on a class: each is a measurement to store.';
