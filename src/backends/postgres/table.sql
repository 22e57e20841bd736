CREATE TABLE IF NOT EXISTS leasehold (
    generation bigint GENERATED ALWAYS AS IDENTITY,
    key varchar(253) COLLATE "C" PRIMARY KEY,
    writes bigint NOT NULL DEFAULT 0 CHECK (writes BETWEEN 0 AND 2147483646),
    acquisition bigint NOT NULL,
    uid varchar(64) NOT NULL,
    holder_identity varchar(65535),
    lease_duration_seconds integer,
    acquire_time varchar(64),
    renew_time varchar(64),
    lease_transitions integer,
    notes varchar(32768),
    UNIQUE (key, acquisition)
);

CREATE OR REPLACE FUNCTION leasehold_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM pg_notify('leasehold', '');
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.key <> NEW.key THEN
        PERFORM pg_notify('leasehold', OLD.key);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM pg_notify('leasehold', NEW.key);
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS leasehold_notify ON leasehold;

CREATE TRIGGER leasehold_notify AFTER INSERT OR UPDATE OR DELETE ON leasehold
    FOR EACH ROW EXECUTE FUNCTION leasehold_notify();

DROP TRIGGER IF EXISTS leasehold_notify_truncate ON leasehold;

CREATE TRIGGER leasehold_notify_truncate AFTER TRUNCATE ON leasehold
    FOR EACH STATEMENT EXECUTE FUNCTION leasehold_notify();
