-- How far the logs of transfers have been read, and the bytes before that place: the name of a log may
-- lead to another file by now.
CREATE TABLE log (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    bytes_before BLOB NOT NULL
) STRICT, WITHOUT ROWID;
