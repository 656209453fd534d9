-- Two candidates may compile to the same bytes and yet read tensors of other shapes, or want other
-- pack kernels: what a caller must know of a kernel belongs to the candidate.
DROP VIEW kernel;
ALTER TABLE candidate ADD COLUMN manifest jsonb;
UPDATE candidate c SET manifest = a.manifest FROM artifact a WHERE a.sha256 = c.artifact_sha256;
ALTER TABLE candidate ADD CHECK ((state = 'compiled') = (manifest IS NOT NULL));
COMMENT ON COLUMN candidate.manifest IS 'How to run its artifact; other candidates may have the same bytes.';
ALTER TABLE artifact DROP COLUMN manifest;

CREATE VIEW kernel AS
    SELECT c.candidate_id, a.sha256, length(a.body) AS size_bytes, c.manifest
    FROM candidate c JOIN artifact a ON a.sha256 = c.artifact_sha256;
COMMENT ON VIEW kernel IS 'Compiled candidates as a page is told of them.';
