-- Returns a column that breaks the promise of the store, or NULL.
SELECT min(name) FROM (
    SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info('leasehold')
    -- Tables of earlier versions lack these columns.
    UNION ALL SELECT column1, '', 0, NULL, 0 FROM (VALUES ('acquisition'), ('notes'))
    WHERE column1 NOT IN (SELECT name FROM pragma_table_info('leasehold'))
)
WHERE CASE
    WHEN name = 'generation' THEN
        -- A comment of the table may also contain these words.
        pk AND 1 = (
            SELECT replace(replace(replace(sql, char(10), ' '), '  ', ' '), '  ', ' ') LIKE '%PRIMARY KEY AUTOINCREMENT%'
            FROM sqlite_schema WHERE name = 'leasehold' COLLATE NOCASE
        )
    -- With a default, earlier versions could insert.
    WHEN name = 'acquisition' THEN type LIKE '%INT%' AND "notnull" AND dflt_value IS NULL
    WHEN name IN ('writes', 'lease_duration_seconds', 'lease_transitions') THEN type LIKE '%INT%'
    -- The declared type decides whether SQLite converts a text that resembles a number.
    WHEN name IN ('key', 'uid', 'holder_identity', 'acquire_time', 'renew_time', 'notes') THEN
        (type LIKE '%TEXT%' OR type LIKE '%CHAR%') AND type NOT LIKE '%INT%'
        AND (name <> 'key' OR 'key BINARY' IN (
            SELECT (SELECT group_concat(name || ' ' || coll) FROM pragma_index_xinfo(i.name) WHERE key)
            FROM pragma_index_list('leasehold') AS i WHERE i."unique" AND NOT i.partial
        ))
    ELSE 1
END IS NOT 1
