CREATE TABLE IF NOT EXISTS leasehold (
    generation INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    writes INTEGER NOT NULL DEFAULT 0 CHECK (writes BETWEEN 0 AND 2147483646),
    acquisition INTEGER NOT NULL,
    uid TEXT NOT NULL,
    holder_identity TEXT,
    lease_duration_seconds INTEGER,
    acquire_time TEXT,
    renew_time TEXT,
    lease_transitions INTEGER,
    notes TEXT CHECK (length(notes) <= 32768)
) STRICT
