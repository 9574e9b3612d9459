"""Values and rules. Pure: no I/O, no clock, no randomness."""
