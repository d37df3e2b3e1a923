"""The embedded engine on SQLite."""
