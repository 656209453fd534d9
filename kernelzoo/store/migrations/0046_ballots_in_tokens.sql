-- A page that runs a language model may rank its fastest kernels by what whole tokens take.

ALTER TABLE ballot ADD COLUMN in_tokens boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN ballot.in_tokens IS
    'Whether the fastest were timed within whole tokens of a language model, too.';
