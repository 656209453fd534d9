CREATE INDEX lease_recent ON lease (created_at);
CREATE INDEX zoo_entry_recent ON zoo_entry (published_at);
