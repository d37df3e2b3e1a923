"""What happened: kinds, ids, clock and codec. Imports errors and limits."""
