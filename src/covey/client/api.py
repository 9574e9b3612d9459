"""Covey's version of the Compute API, through the SDK: requests, names, and error messages."""

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
    """The compute endpoint of the user's cloud, always at Covey's version."""

    connection: Connection

    def get(self, *path: str, **query: str) -> Json:
        return self._request("GET", path, params=query)

    def post(self, *path: str, body: Json) -> Json:
        return self._request("POST", path, json=body)

    def put(self, *path: str, body: Json) -> Json:
        return self._request("PUT", path, json=body)

    def delete(self, *path: str) -> None:
        self._request("DELETE", path)

    def act(self, group: str, action: str, details: Mapping[str, object]) -> Json:
        """Run an action on a group, given by name or id."""
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
        """Return the id of a project; without the right to look it up, the name counts as the id."""
        try:
            return _id(self.connection.identity.find_project(name, ignore_missing=False))  # type: ignore[union-attr]
        except ForbiddenException:
            return name

    def _request(self, method: str, path: tuple[str, ...], **more: Any) -> Json:  # noqa: ANN401 - the SDK's signature
        """Return the document of the response. Raises CommandError with the service's message."""
        url = "".join(f"/{quote(part, safe='')}" for part in path)
        response: Response = self.connection.compute.request(url, method, microversion=MICROVERSION, **more)
        if not response.ok:
            raise CommandError(_error_message(response))
        document: Json = response.json() if response.content else {}
        return document


def _id(resource: Any) -> str:  # noqa: ANN401 - any resource of the SDK
    return str(resource.id)


def _error_message(response: Response) -> str:
    if response.status_code == HTTPStatus.NOT_ACCEPTABLE:
        return f"The compute service does not support microversion {MICROVERSION}; it is not Covey."
    try:
        faults = list(response.json().values())
    except (ValueError, AttributeError):
        faults = []
    messages = [fault["message"] for fault in faults if isinstance(fault, dict) and fault.get("message")]
    return "\n".join(messages) or f"The compute service returned {response.status_code} {response.reason}."
