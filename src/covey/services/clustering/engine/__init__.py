"""The engine: does what actions say, a turn at a time. Any worker may take the next, whoever died over the last."""
