"""Covey's plugin of the `openstack` command. It uses the service's API only."""
