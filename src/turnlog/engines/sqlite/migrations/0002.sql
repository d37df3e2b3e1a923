-- Lists show no thread that is being imported, and pinned ones first.
ALTER TABLE thread ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE thread ADD COLUMN importing INTEGER NOT NULL DEFAULT 0;

DROP INDEX thread_updated;
CREATE INDEX thread_listed ON thread (pinned, updated_at, id) WHERE importing = 0;
CREATE INDEX thread_importing ON thread (pinned, updated_at, id) WHERE importing = 1;

-- A snapshot that is not whole is never given. Its pages may be large, so what finds them is kept beside them.
CREATE TABLE snapshot (
    turn INTEGER PRIMARY KEY, -- its number
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    pages INTEGER NOT NULL,
    whole INTEGER NOT NULL
) STRICT;

CREATE INDEX snapshot_thread ON snapshot (thread, turn);

-- id = turn << 20 | page.
CREATE TABLE snapshot_page (
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
