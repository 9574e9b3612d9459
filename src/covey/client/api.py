"""Covey's own version of the Compute API, spoken through the SDK: requests, names, and errors in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from openstack.connection import Connection
from openstack.exceptions import ForbiddenException
from osc_lib.exceptions import CommandError
from requests import Response

MICROVERSION = "2.1000"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Api:
    """The compute endpoint of the user's cloud, at our version whatever version the user configured."""

    connection: Connection

    def get(self, *path: str, **query: str) -> Json:
        return self._ask("GET", path, params=query)

    def post(self, *path: str, body: Json) -> Json:
        return self._ask("POST", path, json=body)

    def put(self, *path: str, body: Json) -> Json:
        return self._ask("PUT", path, json=body)

    def delete(self, *path: str) -> None:
        self._ask("DELETE", path)

    def act(self, group: str, action: str, details: Mapping[str, object]) -> Json:
        """Ask something of a group, which may be named."""
        return self.post("os-server-groups", self.group(group), "action", body={action: details})

    def group(self, name: str) -> str:
        return _id(self.connection.compute.find_server_group(name, ignore_missing=False))

    def server(self, name: str) -> str:
        return _id(self.connection.compute.find_server(name, ignore_missing=False, details=False))

    def flavor(self, name: str) -> str:
        return _id(self.connection.compute.find_flavor(name, ignore_missing=False))

    def image(self, name: str) -> str:
        return _id(self.connection.image.find_image(name, ignore_missing=False))

    def aggregate(self, name: str) -> int:
        return int(_id(self.connection.compute.find_aggregate(name, ignore_missing=False)))

    def project(self, name: str) -> str:
        """The id of a project; who may not look projects up has to give it as it is."""
        try:
            return _id(self.connection.identity.find_project(name, ignore_missing=False))  # type: ignore[union-attr]
        except ForbiddenException:
            return name

    def _ask(self, method: str, path: tuple[str, ...], **more: Any) -> Json:  # noqa: ANN401 - as the SDK has it
        """The document that came back. Raises CommandError with what the service had to say."""
        url = "".join(f"/{quote(part, safe='')}" for part in path)
        response: Response = self.connection.compute.request(url, method, microversion=MICROVERSION, **more)
        if not response.ok:
            raise CommandError(_complaint(response))
        document: Json = response.json() if response.content else {}
        return document


def _id(found: Any) -> str:  # noqa: ANN401 - one of the SDK's many resources
    return str(found.id)


def _complaint(response: Response) -> str:
    if response.status_code == HTTPStatus.NOT_ACCEPTABLE:
        return f"The compute service of this cloud does not speak microversion {MICROVERSION}, so it is not Covey."
    try:
        faults = list(response.json().values())
    except (ValueError, AttributeError):
        faults = []
    messages = [fault["message"] for fault in faults if isinstance(fault, dict) and fault.get("message")]
    return "\n".join(messages) or f"The compute service answered {response.status_code} {response.reason}."
