"""The only writer: it has both meaning and bytes. Imports folds, engines and events."""
