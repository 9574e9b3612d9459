"""Agents that sign in to a real Keystone."""

from pathlib import Path

from tests.acceptance.keystone import DOMAIN, running_keystone
from tests.agent_lab import AgentLab, AgentProcess
from tests.databases import SQLite


def test_agent_signs_in_to_keystone_with_a_service_user_of_its_own(tmp_path: Path, sqlite_server: SQLite) -> None:
    with running_keystone(tmp_path) as keystone, sqlite_server.fresh(tmp_path) as database:
        for user, role in (("agent-node-1", "service"), ("agent-2", "service"), ("tenant", "member")):
            keystone.create_user(user, "secret", "service", role)
        options = keystone.authtoken_options().items()
        token_options = {f"OS_KEYSTONE_AUTHTOKEN__{name.upper()}": value for name, value in options}
        lab = AgentLab(tmp_path / "lab", database, {**token_options, "OS_API__AUTH_STRATEGY": "keystone"})

        def agent_of(user: str, password: str) -> AgentProcess:
            credentials = {
                "auth_type": "password",
                "auth_url": keystone.auth_url,
                "username": user,
                "password": password,
                "project_name": "service",
                "user_domain_id": DOMAIN,
                "project_domain_id": DOMAIN,
            }
            named = {f"AGENT_AUTH__{name.upper()}": value for name, value in credentials.items()}
            return lab.agent("node-1", latency_s=0.0, AGENT__AUTH_STRATEGY="keystone", **named)

        try:
            lab.service.start()
            agent = agent_of("agent-node-1", "secret")
            agent.start()
            agent.wait_for("agent.up")
            assert agent.stop() == 0
            for user, password, refusal in (
                ("agent-node-1", "wrong", "Keystone refuses the credentials in [agent_auth]"),
                ("tenant", "secret", "The service refuses the agent (403)"),
                ("agent-2", "secret", "belongs to the agent of another user"),
            ):
                refused = agent_of(user, password)
                refused.start()
                assert refused.exit_status() == 1
                assert refusal in refused.log
                assert "Traceback" not in refused.log
        finally:
            lab.close()
