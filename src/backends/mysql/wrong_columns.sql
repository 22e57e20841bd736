SELECT TABLE_NAME, COLUMN_NAME
-- The columns that break the store's promise, of a table that has all its columns. The column `acquired` of an earlier
-- version is the first.
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('leasehold', 'leasehold_fence')
AND 9 <= (SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold')
AND NOT CASE
    WHEN COLUMN_NAME = 'acquired' THEN TABLE_NAME = 'leasehold_fence' AND COLUMN_TYPE LIKE 'bigint%unsigned'
    WHEN COLUMN_NAME = 'generation' THEN DATA_TYPE IN ('int', 'bigint') AND EXTRA LIKE '%auto_increment%'
    -- With a default, earlier versions could insert.
    WHEN COLUMN_NAME = 'writes' THEN DATA_TYPE IN ('int', 'bigint') AND COLUMN_DEFAULT IS NULL AND IS_NULLABLE = 'NO'
    WHEN COLUMN_NAME IN ('lease_duration_seconds', 'lease_transitions') THEN DATA_TYPE IN ('int', 'bigint')
    WHEN COLUMN_NAME = 'name' THEN DATA_TYPE = 'varbinary' AND EXISTS (
        SELECT 1 FROM information_schema.STATISTICS AS i
        WHERE i.TABLE_SCHEMA = DATABASE() AND i.TABLE_NAME = COLUMNS.TABLE_NAME AND i.NON_UNIQUE = 0
        GROUP BY i.INDEX_NAME HAVING GROUP_CONCAT(i.COLUMN_NAME) = 'name' AND MAX(i.SUB_PART) IS NULL
    )
    -- Binary strings, and UTF-8 texts without padding, return a text as it was written.
    WHEN COLUMN_NAME IN ('uid', 'holder_identity', 'acquire_time', 'renew_time', 'notes') THEN
        DATA_TYPE IN ('varbinary', 'varchar', 'blob', 'text', 'tinyblob', 'tinytext', 'mediumblob', 'mediumtext',
            'longblob', 'longtext')
        AND COALESCE(CHARACTER_SET_NAME, 'utf8') LIKE 'utf8%'
    ELSE TRUE
END
UNION ALL
SELECT 'leasehold', 'no notes' FROM DUAL
WHERE 9 <= (SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold')
AND NOT EXISTS (
    SELECT 1 FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leasehold' AND COLUMN_NAME = 'notes'
)
UNION ALL
-- A trigger can change a write so that no row changes.
SELECT 'trigger', TRIGGER_NAME FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE IN ('leasehold', 'leasehold_fence')
AND ACTION_TIMING = 'BEFORE' AND EVENT_MANIPULATION IN ('INSERT', 'UPDATE')
ORDER BY COLUMN_NAME
