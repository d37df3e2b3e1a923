"""Turnlog measured against the raw disk and the older way, side by side in one run. `python -m bench` runs it."""
