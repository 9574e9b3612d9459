"""What an agent asks of the service."""

from io import BytesIO
from typing import Any, cast

import pytest
import requests

from covey.agent import service_api
from covey.agent.service_api import ServiceApi
from covey.agent.transport import ServiceUnavailable, Transport


class Answers:
    """A transport that answers with these statuses."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)

    def request(self, *_: object, **__: object) -> requests.Response:
        response: Any = requests.Response()
        response.status_code, response.raw = self.statuses.pop(0), BytesIO(b"data")
        return cast("requests.Response", response)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_api, "_IMAGE_WAITS_S", (0, 0))


@pytest.mark.usefixtures("no_pauses")
def test_download_is_repeated_while_the_service_sends_images_to_others() -> None:
    with ServiceApi(cast("Transport", Answers(503, 503, 200)), "host").image("i") as chunks:
        assert b"".join(chunks) == b"data"


@pytest.mark.usefixtures("no_pauses")
def test_download_fails_when_the_service_has_no_time_for_long() -> None:
    api = ServiceApi(cast("Transport", Answers(503, 503, 503)), "host")
    with pytest.raises(ServiceUnavailable), api.image("i"):
        pass
