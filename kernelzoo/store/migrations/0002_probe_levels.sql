ALTER TABLE agent_session ADD COLUMN probe jsonb;
COMMENT ON COLUMN agent_session.probe IS 'Levels of kernelzoo.domain.device.ProbeLevels; null where not told.';
