"""/agent/v1: what agents of hosts ask and report. Its documents are in docs/reference/agent-api.md."""
