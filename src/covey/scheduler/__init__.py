"""The scheduler: decisions, explanations, audits and rebalances. Pure: no I/O, no clock; the seed is an argument."""
