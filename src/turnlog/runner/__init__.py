"""Takes one agent through one turn. Imports journal, agents, folds and events."""
