"""An agent that reaches its service by HTTPS only."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from covey import config
from covey.cli.agent import _transport
from covey.model.errors import Invalid
from tests.agent_lab import AgentLab, wait_until
from tests.databases import SQLite
from tests.simulated_guests import running, set_power
from tests.tls import TlsProxy, make_certificate


@pytest.mark.usefixtures("warm")
def test_agent_works_over_https_with_a_certificate_that_it_verifies(sqlite_server: SQLite, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with sqlite_server.fresh(tmp_path) as database:
        lab = AgentLab(tmp_path, database)
        try:
            lab.service.start()
            lab.prepare()
            with TlsProxy(certificate, lab.service.port) as proxy:
                stranger = lab.agent("node-1")
                stranger.url = proxy.url
                stranger.start()
                stranger.wait_for("cannot be verified")
                stranger.kill()
                agent = lab.agent("node-1", AGENT__CAFILE=str(certificate))
                agent.url = proxy.url
                agent.start()
                agent.wait_for("agent.up")
                server = lab.booted("s", "node-1")  # which downloads its image
                set_power(lab.world, server, "crashed")
                lab.wait_for(server, "SHUTOFF")
                lab.delete(server)
                lab.wait_until_gone(server)
                wait_until(lambda: running(lab.world) == {}, "the guest is gone")
                assert agent.stop() == 0
                assert proxy.connections > 0
        finally:
            lab.close()


@pytest.mark.parametrize(
    ("service", "insecure", "is_refused"),
    [
        ("http://192.0.2.1:8774", False, True),
        ("http://192.0.2.1:8774", True, False),
        ("https://192.0.2.1:8774", False, False),
        ("http://127.0.0.1:8774", False, False),
        ("http://localhost:8774", False, False),
    ],
)
def test_password_is_not_sent_over_a_network_in_the_clear(service: str, insecure: bool, is_refused: bool) -> None:
    conf = config.load(())
    for name, value in {
        "service": service,
        "insecure": insecure,
        "auth_strategy": "basic",
        "username": "hv1",
        "password": "secret",
    }.items():
        conf.set_override(name, value, "agent")
    with pytest.raises(Invalid, match="in the clear") if is_refused else nullcontext():
        _transport(conf, "hv1")
