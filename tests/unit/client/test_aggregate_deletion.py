"""The stock `aggregate delete` with --force."""

import pytest
from osc_lib.exceptions import CommandError

from tests.unit.client.wire import Answer, Wire, help_of

LIST = "GET /os-aggregates"
AGGREGATES: Answer = (200, {"aggregates": [{"id": 12, "name": "rack-1"}, {"id": 13, "name": "rack-2"}]})
SHOWN: Answer = (200, {"aggregate": {"id": 12, "name": "rack-1"}})
IN_USE: Answer = (409, {"conflictingRequest": {"code": 409, "message": "A policy of the group web names it."}})


def test_forced_deletion_says_so() -> None:
    wire = Wire({LIST: AGGREGATES, "GET /os-aggregates/12": SHOWN, "DELETE /os-aggregates/12": (200, None)})
    wire.output("aggregate delete --force 12")
    sent = wire.last()
    assert (sent.route, sent.query, sent.version) == ("DELETE /os-aggregates/12", {"force": "true"}, "compute 2.1000")


def test_deletion_without_the_option_is_left_to_the_stock_client() -> None:
    wire = Wire({LIST: AGGREGATES, "GET /os-aggregates/12": SHOWN, "DELETE /os-aggregates/12": (200, None)})
    wire.output("aggregate delete 12")
    assert (wire.last().route, wire.last().query) == ("DELETE /os-aggregates/12", {})


def test_each_failure_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    answers = {LIST: AGGREGATES, "GET /os-aggregates/12": SHOWN, "DELETE /os-aggregates/12": IN_USE}
    with pytest.raises(CommandError, match="1 of 1 aggregates failed to delete"):
        Wire(answers).output("aggregate delete --force 12")
    assert "A policy of the group web names it." in caplog.text


def test_help_explains_the_option() -> None:
    assert "--force" in help_of("aggregate delete")
