-- Every number (id of a thread or turn, mark, number of a cluster) comes from one counter that only grows: the greatest
-- mark. Thread rows are never deleted, so no number is ever given twice.
-- Ids, keys and names are blobs: NUL, lone surrogates, case and composed forms all stay distinct.

CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch TEXT NOT NULL,
    proofs INTEGER NOT NULL
) STRICT;

CREATE TABLE thread (
    id INTEGER PRIMARY KEY,
    thread BLOB NOT NULL UNIQUE,
    head INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    floor INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    fold BLOB NOT NULL
) STRICT;

CREATE INDEX thread_updated ON thread (updated_at, id);
CREATE UNIQUE INDEX thread_mark ON thread (mark);

CREATE TABLE turn (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES thread (id),
    turn BLOB NOT NULL,
    key BLOB,
    digest BLOB NOT NULL,
    retry_of BLOB,
    phase INTEGER NOT NULL,
    owner BLOB,
    fence INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL,
    places INTEGER NOT NULL, -- of its cluster, taken by events
    fold BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX turn_turn ON turn (thread, turn);
CREATE UNIQUE INDEX turn_key ON turn (thread, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX turn_retry_of ON turn (thread, retry_of) WHERE retry_of IS NOT NULL;
CREATE UNIQUE INDEX turn_started ON turn (thread) WHERE phase = 1;
CREATE INDEX turn_open ON turn (thread, owner) WHERE phase < 2;
CREATE INDEX turn_order ON turn (thread, id);

-- id = cluster << 20 | place: the events of one turn lie together, and new ones near the end. A turn's cluster is its
-- own id; events of the thread itself get a fresh one a write, which no turn has.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    v INTEGER NOT NULL,
    kind BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX event_seq ON event (thread, seq);

CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    draft BLOB NOT NULL,
    after INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    chunk_rev INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    text BLOB NOT NULL
) STRICT;

CREATE INDEX chunk_rev ON chunk (thread, chunk_rev);

-- lease_end is on the machine's boot-time clock, in seconds.
CREATE TABLE owner (
    owner BLOB PRIMARY KEY,
    lease_end REAL NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO store VALUES (1, lower(hex(randomblob(8))), 0);
