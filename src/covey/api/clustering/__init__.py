"""The Clustering API: clusters, nodes, profiles, policies, actions, events and receivers."""
