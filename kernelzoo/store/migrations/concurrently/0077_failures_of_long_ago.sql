CREATE INDEX CONCURRENTLY IF NOT EXISTS identity_operated ON identity (id) WHERE operated;
