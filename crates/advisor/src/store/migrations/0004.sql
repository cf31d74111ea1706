-- Which change a program beside the service made to the path last, so that the service reads and learns
-- that path anew and no other.
ALTER TABLE path ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
