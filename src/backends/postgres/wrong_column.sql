-- Returns a row if the table breaks the promise of the store: a column, or UNLOGGED, and a part of the repair. This part
-- is a generation above all earlier ones, renames or adds a column, or names a rule or a trigger.
SELECT missing.name, missing.part FROM (VALUES
    ('acquisition', 'RENAME acquired TO acquisition; ALTER TABLE leasehold ADD IF NOT EXISTS notes varchar(32768); ALTER TABLE leasehold '),
    ('notes', 'ADD notes varchar(32768); ALTER TABLE leasehold ')
) AS missing (name, part) WHERE missing.name NOT IN (
    SELECT attname FROM pg_attribute WHERE attrelid = 'leasehold'::regclass AND NOT attisdropped
)
UNION ALL
SELECT CASE WHEN t.relpersistence = 'p' THEN a.attname ELSE 'UNLOGGED' END, CASE
    WHEN a.attname <> 'generation' THEN ''
    -- A user may read the table but not its sequence. Only the sequence has the generations of deleted rows.
    WHEN g.sequence IS NULL OR has_sequence_privilege(g.sequence, 'SELECT') THEN
        (greatest((SELECT max(generation) FROM leasehold), pg_sequence_last_value(g.sequence), 0) + 1)::text
    ELSE 'a number above every earlier generation'
END
FROM pg_attribute AS a
JOIN pg_class AS t ON t.oid = a.attrelid
CROSS JOIN (SELECT pg_get_serial_sequence('leasehold', 'generation')::regclass AS sequence) AS g
-- The sequence of an identity column.
LEFT JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'
LEFT JOIN pg_sequence AS s ON s.seqrelid = d.objid
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = 'leasehold'::regclass AND NOT a.attisdropped AND CASE
    -- Generations increase, even after deletions. A sequence with a cache would give each session its own range of
    -- numbers.
    WHEN a.attname = 'generation' THEN
        t.relpersistence = 'p' AND a.atttypid = 'bigint'::regtype AND s.seqincrement > 0 AND NOT s.seqcycle AND s.seqcache = 1
    -- Without the index, an acquisition does not wait for fences. With a default, earlier versions could insert.
    WHEN a.attname = 'acquisition' THEN
        a.atttypid IN ('integer'::regtype, 'bigint'::regtype) AND a.attnotnull AND NOT a.atthasdef AND EXISTS (
            SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
            AND i.indexprs IS NULL AND a.attnum = ANY ((i.indkey::int2[])[:i.indnkeyatts - 1])
        )
    WHEN a.attname IN ('writes', 'lease_duration_seconds', 'lease_transitions') THEN
        a.atttypid IN ('integer'::regtype, 'bigint'::regtype)
    -- Text must be read as it was written, and compared by bytes.
    WHEN a.attname IN ('key', 'uid', 'holder_identity', 'acquire_time', 'renew_time', 'notes') THEN
        a.atttypid IN ('text'::regtype, 'varchar'::regtype) AND c.collisdeterministic
        AND (a.attname <> 'key' OR EXISTS (
            SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
            AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum
        ))
    ELSE true
END IS NOT TRUE
-- Row level security, rules and triggers can drop or change writes, without an error.
UNION ALL SELECT 'ROW SECURITY', '' WHERE row_security_active('leasehold')
UNION ALL SELECT 'RULE', quote_ident(rulename) FROM pg_rewrite
WHERE ev_class = 'leasehold'::regclass AND ev_enabled IN ('O', 'A') AND ev_type IN ('2', '3')
UNION ALL SELECT 'TRIGGER', quote_ident(tgname) FROM pg_trigger
WHERE tgrelid = 'leasehold'::regclass AND NOT tgisinternal AND tgenabled IN ('O', 'A')
-- The trigger runs before each row, at an insert or an update.
AND tgtype & 3 = 3 AND tgtype & 20 <> 0
LIMIT 1
