"""What carries decisions out: one file for each backend."""
