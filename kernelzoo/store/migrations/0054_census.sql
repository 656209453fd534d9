-- What monitoring asks is counted once a minute, and a task of the clock says when it last ended.

CREATE TABLE census (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    figures jsonb NOT NULL
);
COMMENT ON TABLE census IS
    'One row: what the service holds and what waits, counted once a minute. Metrics are read from it.';
COMMENT ON COLUMN census.figures IS 'Numbers by the value of a label, by the name of a metric.';

CREATE TABLE periodic_task (
    task text PRIMARY KEY,
    ended_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE periodic_task IS
    'When a task of the clock last came to its end; one that fails or is killed leaves this as it is.';
INSERT INTO periodic_task (task) VALUES
    ('requeue'), ('order_spaces'), ('aggregate_by_family'), ('take_census'), ('train_model'),
    ('remove_old');
