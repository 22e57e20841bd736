CREATE TABLE IF NOT EXISTS leasehold_fence (
    name VARBINARY(253) NOT NULL PRIMARY KEY,
    acquired BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS leasehold (
    generation BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(253) NOT NULL UNIQUE,
    writes INT NOT NULL CHECK (writes BETWEEN 0 AND 2147483646),
    uid VARBINARY(64) NOT NULL,
    holder_identity BLOB,
    lease_duration_seconds INT,
    acquire_time VARBINARY(64),
    renew_time VARBINARY(64),
    lease_transitions INT,
    notes TEXT CHARACTER SET utf8mb4
) ENGINE=InnoDB
