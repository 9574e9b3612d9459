"""Server groups in a cloud whose compute service is Nova, beside Covey."""

import logging
from typing import Any

import pytest
from osc_lib.exceptions import CommandError

from covey.client.nova_groups import nova_policy
from tests.unit.client.wire import Answer, SentRequest, Wire

CREATE, SHOW, DELETE = "POST /os-server-groups", "GET /os-server-groups/g-1", "DELETE /os-server-groups/g-1"
SET = "PUT /covey/v2.1/os-server-groups/g-1"
OF_NOVA: dict[str, Any] = {
    "id": "g-1",
    "name": "web",
    "policy": "soft-anti-affinity",
    "rules": {},
    "members": ["s-1"],
    "project_id": "p-1",
    "user_id": "u-1",
}
OF_COVEY = OF_NOVA | {
    "policies": ["anti-affinity:rack"],
    "policy": {"name": "anti-affinity:rack", "rules": {"max_server_per_rack": 2}},
    "rules": {"max_server_per_rack": 2},
}
MADE: Answer = (200, {"server_group": OF_NOVA})
ACCEPTED: Answer = (200, {"server_group": OF_COVEY})
REFUSED: Answer = (400, {"badRequest": {"code": 400, "message": "Policy scope 'rack' does not exist."}})
GONE: Answer = (404, {"itemNotFound": {"code": 404, "message": "There is no such thing."}})


def beside_nova(**answers: Any) -> Wire:
    return Wire({CREATE: MADE, SET: ACCEPTED, SHOW: MADE, DELETE: (204, None)} | answers, beside_nova=True)


def routes(sent: list[SentRequest]) -> list[str]:
    return [request.route for request in sent]


@pytest.mark.parametrize(
    ("policies", "rules", "expected"),
    [
        (["anti-affinity:rack"], {}, {"policy": "soft-anti-affinity"}),
        (["affinity:switch"], {}, {"policy": "soft-anti-affinity"}),
        (["anti-affinity:rack", "soft-affinity"], {}, {"policy": "soft-affinity"}),
        (["soft-affinity:host", "affinity:switch"], {}, {"policy": "soft-affinity"}),
        (["soft-anti-affinity", "anti-affinity:rack"], {}, {"policy": "soft-anti-affinity"}),
        (["soft-affinity:rack", "anti-affinity"], {}, {"policy": "anti-affinity"}),
        (["affinity:host"], {}, {"policy": "affinity"}),
        (["anti-affinity:host:7"], {}, {"policy": "soft-anti-affinity"}),
        (
            ["anti-affinity:rack", "anti-affinity"],
            {"max_server_per_host": "3", "max_server_per_rack": "5"},
            {"policy": "anti-affinity", "rules": {"max_server_per_host": "3"}},
        ),
        (["affinity"], {"max_server_per_host": "3"}, {"policy": "affinity"}),
    ],
)
def test_policy_of_novas_group_is_not_stricter_than_asked(
    policies: list[str], rules: dict[str, str], expected: dict[str, Any]
) -> None:
    assert nova_policy(policies, rules) == expected


def test_group_is_created_in_nova_then_its_policies_in_covey() -> None:
    wire = beside_nova()
    shown = wire.run("server group create --policy anti-affinity:rack --rule max_server_per_rack=2 web")
    assert (shown["id"], shown["policies"]) == ("g-1", ["anti-affinity:rack"])
    in_nova, in_covey = wire.sent
    assert (in_nova.route, in_nova.version) == (CREATE, "compute 2.64")
    assert in_nova.body == {"server_group": {"name": "web", "policy": "soft-anti-affinity"}}
    assert (in_covey.route, in_covey.version) == (SET, "covey 2.1000")
    policies = {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": "2"}}
    assert in_covey.body == {"server_group": policies}


def test_single_policy_without_a_scope_is_left_to_nova() -> None:
    wire = beside_nova()
    wire.run("server group create --policy anti-affinity web")
    assert routes(wire.sent) == [CREATE]


def test_group_is_deleted_in_nova_if_covey_refuses_the_policies() -> None:
    wire = beside_nova(**{SET: REFUSED})
    with pytest.raises(CommandError) as failed:
        wire.run("server group create --policy anti-affinity:rack web")
    assert str(failed.value) == (
        "Policy scope 'rack' does not exist.\nNo server group was created: the one in Nova is deleted again."
    )
    assert routes(wire.sent) == [CREATE, SET, DELETE]


def test_error_names_the_remaining_group_if_nova_does_not_delete_it() -> None:
    wire = beside_nova(**{SET: REFUSED, DELETE: (500, {"computeFault": {"message": "Unexpected."}})})
    with pytest.raises(CommandError) as failed:
        wire.run("server group create --policy anti-affinity:rack web")
    assert str(failed.value) == (
        "Policy scope 'rack' does not exist.\n"
        "The server group g-1 remains in Nova, with the policy soft-anti-affinity: Unexpected.\n"
        "Set its policies with `openstack server group set g-1`, or delete it."
    )


def test_nothing_is_sent_to_covey_if_nova_refuses_the_group() -> None:
    wire = beside_nova(**{CREATE: (403, {"forbidden": {"message": "Quota exceeded, too many server groups."}})})
    with pytest.raises(CommandError, match="Quota exceeded"):
        wire.run("server group create --policy anti-affinity:rack web")
    assert routes(wire.sent) == [CREATE]


@pytest.mark.parametrize(
    ("policy", "rules", "warning"),
    [
        ("soft-anti-affinity", {}, None),
        ("anti-affinity", {}, "Nova still enforces anti-affinity with max_server_per_host=1"),
        ("affinity", {}, "Nova still enforces affinity for this group,"),
    ],
)
def test_set_changes_covey_and_warns_of_a_stricter_policy_in_nova(
    policy: str, rules: dict[str, int], warning: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    wire = beside_nova(**{SHOW: (200, {"server_group": OF_NOVA | {"policy": policy, "rules": rules}})})
    with caplog.at_level(logging.WARNING):
        assert wire.run("server group set g-1 --policy anti-affinity:rack")["policies"] == ["anti-affinity:rack"]
    assert [text[: len(warning)] if warning else text for text in caplog.messages] == ([warning] if warning else [])


def test_delete_deletes_in_both() -> None:
    wire = beside_nova(**{SHOW: [MADE, MADE, GONE], "DELETE /covey/v2.1/os-server-groups/g-1": (204, None)})
    assert wire.output("server group delete g-1") == ""
    assert routes(wire.sent)[-3:] == [DELETE, SHOW, "DELETE /covey/v2.1/os-server-groups/g-1"]


def test_delete_keeps_the_policies_of_a_group_that_nova_keeps() -> None:
    wire = beside_nova(**{DELETE: (500, {"computeFault": {"message": "Unexpected."}})})
    with pytest.raises(CommandError, match="1 of 1 server groups failed to delete"):
        wire.output("server group delete g-1")
    assert not [route for route in routes(wire.sent) if "DELETE /covey" in route]


def test_show_and_list_have_the_policies_of_covey() -> None:
    plain = OF_NOVA | {"id": "g-2", "name": "plain", "policy": "anti-affinity", "rules": {"max_server_per_host": 3}}
    nova_lists = [(200, {"server_groups": [OF_NOVA, plain]})] * 2 + [(200, {"server_groups": []})]
    covey_lists = [(200, {"server_groups": [OF_COVEY]}), (200, {"server_groups": []})]
    wire = beside_nova(
        **{
            "GET /covey/v2.1/os-server-groups/g-1": ACCEPTED,
            "GET /os-server-groups": nova_lists,
            "GET /covey/v2.1/os-server-groups": covey_lists,
        }
    )
    shown = wire.run("server group show g-1")
    assert (shown["policy"], shown["rules"], shown["members"]) == (
        "anti-affinity:rack",
        {"max_server_per_rack": 2},
        ["s-1"],
    )
    rows = {row["ID"]: (row["Policy"], row["Rules"]) for row in wire.run("server group list")}
    assert rows == {
        "g-1": ("anti-affinity:rack", {"max_server_per_rack": 2}),
        "g-2": ("anti-affinity", {"max_server_per_host": 3}),
    }


def test_show_has_novas_policy_and_a_warning_if_covey_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    wire = beside_nova(**{"GET /covey/v2.1/os-server-groups/g-1": (503, {"computeFault": {"message": "Busy."}})})
    with caplog.at_level(logging.WARNING):
        assert wire.run("server group show g-1")["policy"] == "soft-anti-affinity"
    assert caplog.messages == ["These are the policies in Nova; Covey does not answer: Busy."]


def test_aggregates_of_scopes_are_named_in_covey() -> None:
    aggregates = [{"id": 7, "uuid": "u-7", "name": "rack-7"}, {"id": 8, "uuid": "u-8", "name": "rack-8"}]
    wire = beside_nova(
        **{
            "GET /covey/v2.1/os-aggregates": (200, {"aggregates": aggregates}),
            "POST /covey/v2.1/os-policy-scopes/rack/action": (200, {"policy_scope": {}}),
        }
    )
    for name in ("8", "rack-8", "u-8"):
        wire.run(f"policy scope add aggregate rack {name}")
        assert wire.last().body == {"add_aggregate": {"aggregate": 8}}
    with pytest.raises(CommandError, match="No Aggregate found for rack-9"):
        wire.run("policy scope add aggregate rack rack-9")
