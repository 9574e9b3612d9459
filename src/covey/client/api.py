"""Covey's version of the Compute API, through the SDK: requests, names, and error messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from keystoneauth1.exceptions import CatalogException
from keystoneauth1.identity import BaseIdentityPlugin
from openstack.connection import Connection
from openstack.exceptions import ForbiddenException
from openstack.proxy import Proxy
from osc_lib.exceptions import CommandError
from requests import Response

MICROVERSION = "2.1000"
NOVA_MICROVERSION = "2.64"  # the first with one policy and its rules
SERVICE_TYPE = "covey"

Json = dict[str, Any]


class NotFoundError(CommandError):
    """The service has no such object, or does not show it to the user."""


@dataclass(frozen=True)
class Api:
    """Covey in the user's cloud, always at Covey's version.

    It is the endpoint of the service type `covey`, if the cloud has one, else the compute endpoint.
    """

    connection: Connection

    def get(self, *path: str, **query: str) -> Json:
        return self._request("GET", path, params=query)

    def post(self, *path: str, body: Json) -> Json:
        return self._request("POST", path, json=body)

    def put(self, *path: str, body: Json) -> Json:
        return self._request("PUT", path, json=body)

    def delete(self, *path: str, **query: str) -> None:
        self._request("DELETE", path, params=query)

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
        """Return the id of an aggregate in Covey; an aggregate of Nova has another one there."""
        if not self.is_beside_nova:
            return int(_id(self.connection.compute.find_aggregate(name, ignore_missing=False)))
        for aggregate in self.get("os-aggregates")["aggregates"]:
            if name in {str(aggregate["id"]), aggregate["uuid"], aggregate["name"]}:
                return int(aggregate["id"])
        raise CommandError(f"No Aggregate found for {name}")

    def project(self, name: str) -> str:
        """Return the id of a project; without the right to look it up, the name counts as the id."""
        try:
            return _id(self.connection.identity.find_project(name, ignore_missing=False))  # type: ignore[union-attr]
        except ForbiddenException:
            return name

    @cached_property
    def is_beside_nova(self) -> bool:
        """Whether the cloud's compute service is another one than Covey."""
        return self._covey is not None and _address(self._covey) != _address(self.connection.compute)

    def nova(self, method: str, *path: str, **more: Any) -> Json:  # noqa: ANN401 - the SDK's signature
        """Return the response of the compute service, at Nova's version. Raises CommandError with its message."""
        return _send(self.connection.compute, method, path, microversion=NOVA_MICROVERSION, **more)

    @cached_property
    def _covey(self) -> Proxy | None:
        """The endpoint of type covey; None if clouds.yaml and the catalogue have none.

        Credentials without a catalogue give the same address for every service type.
        """
        region, credentials = self.connection.config, self.connection.session.auth
        named = region.config.get(f"{SERVICE_TYPE}_endpoint_override")
        if not named and not isinstance(credentials, BaseIdentityPlugin):
            return None
        try:
            client = region.get_session_client(SERVICE_TYPE)
            return client if _address(client) else None
        except CatalogException:  # it lists no such service
            return None

    def _request(self, method: str, path: tuple[str, ...], **more: Any) -> Json:  # noqa: ANN401 - the SDK's signature
        """Return the document of the response. Raises CommandError with the service's message."""
        return _send(self._covey or self.connection.compute, method, path, microversion=MICROVERSION, **more)


def _send(client: Proxy, method: str, path: tuple[str, ...], **more: Any) -> Json:  # noqa: ANN401
    url = "".join(f"/{quote(part, safe='')}" for part in path)
    response: Response = client.request(url, method, **more)
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise NotFoundError(_error_message(response))
    if not response.ok:
        raise CommandError(_error_message(response))
    document: Json = response.json() if response.content else {}
    return document


def _address(client: Proxy) -> str:
    return str(client.get_endpoint() or "").rstrip("/")


def _id(resource: Any) -> str:  # noqa: ANN401 - any resource of the SDK
    return str(resource.id)


def _error_message(response: Response) -> str:
    if response.status_code == HTTPStatus.NOT_ACCEPTABLE:
        return (
            f"The compute service does not support microversion {MICROVERSION}; it is not Covey, and the catalogue has "
            f"no service of type {SERVICE_TYPE}."
        )
    try:
        faults = list(response.json().values())
    except (ValueError, AttributeError):
        faults = []
    messages = [fault["message"] for fault in faults if isinstance(fault, dict) and fault.get("message")]
    return "\n".join(messages) or f"The compute service returned {response.status_code} {response.reason}."
