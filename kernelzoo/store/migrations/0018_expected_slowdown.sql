COMMENT ON COLUMN common_kernel.relative_time IS
    'Over the fastest known, as expected on one more class of the group.';

-- What is stored was pooled by the earlier rule.
UPDATE zoo_entry SET pooled = false WHERE pooled AND state <> 'provisional';
