"""A repeated request with an idempotency key is executed once."""

from covey.storage import tables
from tests.functional.client import Answer
from tests.functional.fleets import Cloud


def ask(cloud: Cloud, key: str, name: str = "s") -> Answer:
    return cloud.request_server(cloud.alice.sending(Idempotency_Key=key), name)


def test_repeated_request_returns_the_same_server(cloud: Cloud) -> None:
    first = ask(cloud, "k")
    assert first.status == 202
    again = ask(cloud, "k")
    assert (again.status, again.json["server"]["id"]) == (202, first.json["server"]["id"])
    other = ask(cloud, "k", name="other")
    assert (other.status, other.message) == (409, "The idempotency key k was used for another request.")
    assert ask(cloud, "k2").json["server"]["id"] != first.json["server"]["id"]
    assert len(cloud.servers()) == 2


def test_idempotency_keys_are_per_project(cloud: Cloud) -> None:
    mine = ask(cloud, "k").json["server"]["id"]
    theirs = cloud.request_server(cloud.bob.sending(Idempotency_Key="k"))
    assert theirs.status == 202
    assert theirs.json["server"]["id"] != mine


def test_refused_request_can_be_retried(cloud: Cloud) -> None:
    cloud.set_quota(instances=0)
    for _ in range(2):
        assert ask(cloud, "k").status == 403
    assert cloud.rows(tables.idempotency_keys) == []
    cloud.set_quota(instances=1)
    assert ask(cloud, "k", name="now").status == 202


def test_idempotency_key_is_kept_for_a_day(cloud: Cloud) -> None:
    first = ask(cloud, "k").json["server"]["id"]
    for seconds, is_same in ((23 * 3600, True), (2 * 3600, False)):
        cloud.time.advance(seconds)
        cloud.assembled.maintenance.run_if_due()
        assert (ask(cloud, "k").json["server"]["id"] == first) is is_same
