"""Asks Covey over HTTP, on kept connections of a keystoneauth session."""

import threading
from dataclasses import dataclass
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.adapter import Adapter
from requests import Response

from covey_nova.options import CONF, GROUP, credentials_group, retries
from covey_nova.transport import limit_requests

PATH = "/host_rankings"


class Unavailable(Exception):
    """Covey did not give an answer in time."""


@dataclass(frozen=True)
class Ranking:
    """The weights of admitted hosts, by the uuids of their compute nodes, and counted reasons for the others."""

    weights: dict[str, float]
    refused: list[str]


class Client:
    """Builds its session at the first request, when the options are read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._adapter: Adapter | None = None

    def rank(self, question: dict[str, Any], request_id: str | None = None) -> Ranking:
        """Return Covey's answer to a ranking request. Raises Unavailable."""
        try:
            response = self._connected().post(PATH, json=question, global_request_id=request_id)
            return _ranking(response)
        except (exceptions.ClientException, ValueError) as error:
            raise Unavailable(str(error)) from error

    def _connected(self) -> Adapter:
        with self._lock:
            if self._adapter is None:
                group = credentials_group()
                auth = loading.load_auth_from_conf_options(CONF, group)
                session = loading.load_session_from_conf_options(CONF, group, auth=auth)
                session.timeout = CONF[GROUP].timeout  # also of requests for tokens
                limit_requests(session)
                self._adapter = loading.load_adapter_from_conf_options(
                    CONF, group, session=session, auth=auth, **retries()
                )
            return self._adapter


def _ranking(response: Response) -> Ranking:
    """Return what the answer says. Raises ValueError, as for an answer of something else than Covey."""
    answer = response.json()
    try:
        weights = {str(entry["host"]): float(entry["weight"]) for entry in answer["hosts"]}
        return Ranking(weights, [str(reason) for reason in answer["refused"]])
    except (LookupError, TypeError) as error:
        raise ValueError(f"The answer is no ranking of hosts: {type(error).__name__} {error}") from error
