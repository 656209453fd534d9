-- A key has one tally waiting, however many ballots and reports ask for it.

CREATE TABLE waiting_tally (
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    device_class text NOT NULL,
    requeued_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workload_key, device_class)
);
COMMENT ON TABLE waiting_tally IS
    'Keys whose ballots a message asks to count, since when: who finds one sends no other. The tally '
    'that takes the message removes the row before it reads a ballot.';
