"""Where it is kept: engines take bytes and state their promises. Imports events, never folds and never each other."""
