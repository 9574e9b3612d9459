"""The agent of a host: it carries out the service's calls on the host's hypervisor."""
