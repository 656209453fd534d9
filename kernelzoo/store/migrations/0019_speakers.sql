-- Classes are counted for others by networks of their own, some of whose voters are vouched for.

ALTER TABLE identity ADD COLUMN attested boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN identity.attested IS
    'A verifier vouched for it: it may speak for classes other than its own.';

ALTER TABLE zoo_entry ADD COLUMN speaks boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN zoo_entry.speaks IS
    'Whether other classes are told of it; see services.aggregator.speakers. Set where it is pooled.';

-- What is stored was pooled by the earlier rule.
UPDATE zoo_entry SET pooled = false WHERE pooled AND state <> 'provisional';
