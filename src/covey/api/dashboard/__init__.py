"""The web page at /dashboard/, and what it asks for beyond the public APIs."""
