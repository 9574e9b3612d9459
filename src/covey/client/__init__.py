"""What Covey adds to the `openstack` command. It runs on a user's machine, and knows the service by its API only."""
