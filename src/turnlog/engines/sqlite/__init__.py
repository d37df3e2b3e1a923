"""The embedded engine: one SQLite file, its write-ahead log, and a lock file an owner beside it."""
