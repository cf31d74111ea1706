-- What is written only to see whether writing succeeds.
CREATE TABLE trial (bytes BLOB NOT NULL) STRICT;
INSERT INTO trial VALUES (x'');
