SELECT 'column', COLUMN_NAME
-- The columns that break the store's promise, of a table that has all ten columns.
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold'
AND 10 <= (SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold')
AND NOT CASE
    WHEN COLUMN_NAME = 'generation' THEN DATA_TYPE IN ('int', 'bigint') AND EXTRA LIKE '%auto_increment%'
    WHEN COLUMN_NAME IN ('writes', 'acquired', 'lease_duration_seconds', 'lease_transitions') THEN
        DATA_TYPE IN ('int', 'bigint')
    WHEN COLUMN_NAME = 'name' THEN DATA_TYPE = 'varbinary' AND EXISTS (
        SELECT 1 FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold' AND NON_UNIQUE = 0
        GROUP BY INDEX_NAME HAVING GROUP_CONCAT(COLUMN_NAME) = 'name' AND MAX(SUB_PART) IS NULL
    )
    -- Binary strings, and UTF-8 texts without padding, return a text as it was written.
    WHEN COLUMN_NAME IN ('uid', 'holder_identity', 'acquire_time', 'renew_time') THEN
        DATA_TYPE IN ('varbinary', 'varchar', 'blob', 'text', 'tinyblob', 'tinytext', 'mediumblob', 'mediumtext',
            'longblob', 'longtext')
        AND COALESCE(CHARACTER_SET_NAME, 'utf8') LIKE 'utf8%'
    ELSE TRUE
END
