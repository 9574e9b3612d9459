"""The Compute API, with Nova's shapes at each microversion."""
