-- Pages that tune themselves are told what the cost model foretells of a candidate.

ALTER TABLE evaluation_order ADD COLUMN costs double precision[];
COMMENT ON COLUMN evaluation_order.costs IS
    'What the model foretells of each candidate: log2 of its time, of which differences count. Null without a model.';
