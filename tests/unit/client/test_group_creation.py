"""The stock `server group create` with several policies."""

from typing import Any

import pytest

from tests.unit.client.wire import Answer, Wire, help_of

CREATE = "POST /os-server-groups"
ANSWERED: Answer = (200, {"server_group": {"id": "g-1", "name": "web", "policies": ["a", "b"], "policy": {}}})


def sent(options: str) -> tuple[Any, str | None]:
    wire = Wire({CREATE: ANSWERED})
    wire.run(f"server group create {options} web")
    return wire.last().body["server_group"], wire.last().version


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ("", {"policy": "affinity"}),
        ("--policy soft-anti-affinity", {"policy": "soft-anti-affinity"}),
        ("--rule a=b", {"policy": "affinity", "rules": {"a": "b"}}),
        (
            "--policy anti-affinity --rule max_server_per_host=3",
            {"policy": "anti-affinity", "rules": {"max_server_per_host": "3"}},
        ),
    ],
)
def test_single_policy_is_left_to_the_stock_client(options: str, more: dict[str, object]) -> None:
    assert sent(options) == ({"name": "web"} | more, "compute 2.64")


@pytest.mark.parametrize(
    ("options", "policies", "rules"),
    [
        ("--policy affinity --policy anti-affinity:rack", ["affinity", "anti-affinity:rack"], {}),
        ("--policy anti-affinity:host", ["anti-affinity:host"], {}),
        ("--policy affinity:zone:12 --rule a=b", ["affinity:zone:12"], {"a": "b"}),
        ("--policy anti-affinity:rack --rule a=1 --rule b=2", ["anti-affinity:rack"], {"a": "1", "b": "2"}),
    ],
)
def test_several_policies_use_the_covey_version(options: str, policies: list[str], rules: dict[str, str]) -> None:
    group = {"name": "web", "policies": policies, "rules": rules}
    assert sent(options) == (group, "compute 2.1000")


def test_group_shows_all_its_policies() -> None:
    shown = Wire({CREATE: ANSWERED}).run("server group create --policy affinity --policy anti-affinity:rack web")
    assert shown == {"id": "g-1", "name": "web", "policies": ["a", "b"]}


@pytest.mark.parametrize("command", ["server group create --policy", "server group set web --policy"])
def test_unknown_policy_kind_is_rejected_before_the_request(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    wire = Wire({})
    with pytest.raises(SystemExit):
        wire.output(f"{command} afinity:rack web")
    assert "'afinity:rack' is not TYPE[:SCOPE[:IDENTIFIER]]" in capsys.readouterr().err
    assert wire.sent == []


def test_help_has_the_stock_options_and_the_example() -> None:
    text = help_of("server group create")
    assert text.count("--policy <policy> ") == 1
    assert "New server group name" in text
    assert "Example: openstack server group create --policy anti-affinity:rack" in text
