ALTER TABLE zoo_entry ADD COLUMN contenders text[] NOT NULL DEFAULT '{}';
ALTER TABLE zoo_entry ADD COLUMN final boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN zoo_entry.contenders IS
    'Measured faster than this by more than the noise, by too few to say so: they are lent to more.';
COMMENT ON COLUMN zoo_entry.final IS
    'A quorum has voted, all that the class can run is measured, and nothing contends.';

-- What is served already was measured to the end by the earlier rule.
UPDATE zoo_entry SET final = true WHERE state = 'confirmed';
