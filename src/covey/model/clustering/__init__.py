"""Clusters of servers: what they are made of, how they grow and shrink, and by which policies."""
