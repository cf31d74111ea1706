-- Paths as their operators declared them: JSON, the same object as in the configuration file.
CREATE TABLE path (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    config TEXT NOT NULL
) STRICT;

-- The hops of a path. The newest sample's time stands here so that a new one is judged at once.
CREATE TABLE hop (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path INTEGER NOT NULL REFERENCES path (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    newest_us INTEGER,
    samples INTEGER NOT NULL DEFAULT 0,
    UNIQUE (path, name)
) STRICT;

-- Samples, packed. The key is (hop << 34) + Unix second of the first sample, so that a hop's samples
-- lie one behind the other and any span of them is one range of keys.
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    samples BLOB NOT NULL
) STRICT;

CREATE TABLE round_trip (
    path INTEGER NOT NULL REFERENCES path (id) ON DELETE CASCADE,
    time_us INTEGER NOT NULL,
    rtt_ms REAL NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (path, time_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE transfer (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path INTEGER NOT NULL REFERENCES path (id) ON DELETE CASCADE,
    time_us INTEGER NOT NULL,
    host TEXT NOT NULL,
    direction TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    seconds REAL NOT NULL,
    retransmits INTEGER,
    rtt_ms REAL
) STRICT;
CREATE INDEX transfer_of_path ON transfer (path, time_us);

-- Counts what programs beside the service change, so that it sees them.
CREATE TABLE change (number INTEGER NOT NULL) STRICT;
INSERT INTO change VALUES (0);
