"""The Clustering API: profiles, policies, clusters, nodes, and what is done to them."""
