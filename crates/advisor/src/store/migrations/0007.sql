-- Nobody asks how many samples a hop has, and every write had to count them.
ALTER TABLE hop DROP COLUMN samples;
