"""The Compute API at its newest microversion, as an OpenAPI document made from the code."""
