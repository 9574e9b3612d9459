"""Who is asking: three ways to find out, one shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from covey.model.access import Actor

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class Authenticator(Protocol):
    """Turns a request's credentials into an actor."""

    @property
    def challenge(self) -> str:
        """The WWW-Authenticate header of a 401: how to do better."""

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        """Raises Unauthorized."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project, as far as the clients look projects up."""

    id: str
    name: str


class Projects(Protocol):
    """The projects that there are, where the service itself knows them."""

    def project(self, project_id: str) -> Project | None: ...

    def projects_named(self, name: str | None) -> Sequence[Project]: ...
