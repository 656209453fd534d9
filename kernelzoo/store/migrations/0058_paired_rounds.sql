-- Ballots say whether their times are of rounds in which all took turns, and name all of those;
-- entries say where their kernel stands among all that were measured.

ALTER TABLE ballot
    ADD COLUMN paired boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT ballot_candidate_ids_check,
    ADD CONSTRAINT ballot_candidate_ids_check CHECK (cardinality(candidate_ids) BETWEEN 1 AND 8);
COMMENT ON COLUMN ballot.paired IS
    'Whether its times are of rounds in which all of its kernels and the reference took turns.';

ALTER TABLE zoo_entry
    ADD COLUMN rank integer CHECK (rank > 0),
    ADD COLUMN spread double precision CHECK (spread >= 0);
COMMENT ON COLUMN zoo_entry.rank IS
    'Place of its time among those of all kernels that voters measured, from 1; null of before.';
COMMENT ON COLUMN zoo_entry.spread IS
    'How far apart the middle half of the voters find it, as a share of its time; null of one voter.';
