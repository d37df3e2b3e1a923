"""Who operates: the command line. May import every room except testing; only its output module prints."""
