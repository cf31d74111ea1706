-- When the host of a path that nobody declared came up last in a log or in a report of a transfer; NULL:
-- the path was declared.
ALTER TABLE path ADD COLUMN discovered_us INTEGER;
