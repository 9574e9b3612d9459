"""From a question to an answer. Pure: no I/O, no clock, and randomness only from a seed that comes in."""
