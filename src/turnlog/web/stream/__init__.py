"""Server-sent events: one reader of a thread for all who watch it, and the streams that are kept open."""
