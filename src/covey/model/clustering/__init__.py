"""Clustering: clusters, nodes, profiles, policies, actions, events and receivers."""
