"""A read-only part of the Identity API, for clients that look up projects."""
