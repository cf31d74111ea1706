-- What kept a transfer from going faster, and for how long; nothing where nobody said it.
ALTER TABLE transfer ADD COLUMN network_s REAL;
ALTER TABLE transfer ADD COLUMN receiver_s REAL;
ALTER TABLE transfer ADD COLUMN sender_s REAL;
