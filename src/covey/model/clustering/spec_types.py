"""Types of profiles and of policies: what a specification of each may say."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from covey.model.clustering.errors import BadSpec, missing
from covey.model.clustering.spec_schema import Map, Schema, String, read
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that can be done to a node of a type."""

    description: str
    parameters: Schema = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpecType:
    """One version of a type."""

    name: str
    version: str
    since: str
    properties: Schema
    operations: Mapping[str, Operation] = field(default_factory=dict)
    status: str = "SUPPORTED"

    @property
    def full_name(self) -> str:
        """The name with the version, by which a type is known."""
        return f"{self.name}-{self.version}"

    def read(self, spec: Document) -> dict[str, object]:
        """The properties of a specification, with defaults. Raises BadSpec."""
        whole = read(_SPEC | {"properties": Map("What is wanted.", required=True, items=self.properties)}, spec)
        properties = whole["properties"]
        assert isinstance(properties, dict)
        return properties

    def check_operation(self, name: str, parameters: Document) -> None:
        """Raises Invalid for an operation that nodes of this type do not have, or with other parameters than it has."""
        operation = self.operations.get(name)
        if operation is None:
            raise Invalid(f"The requested operation '{name}' is not supported by the profile type '{self.full_name}'.")
        try:
            read(operation.parameters, parameters)
        except BadSpec as error:
            raise Invalid(f"{error.message}.") from error


class SpecTypes:
    """All types of a kind: profile_type, or policy_type."""

    def __init__(self, kind: str, types: Iterable[SpecType]) -> None:
        self._kind, self._types = kind, {known.full_name: known for known in types}

    def __iter__(self) -> Iterator[SpecType]:
        return iter(self._types.values())

    def named(self, full_name: str) -> SpecType:
        """Raises NotFound."""
        found = self._types.get(full_name)
        if found is None:
            raise missing(self._kind, full_name)
        return found

    def of(self, spec: Document) -> SpecType:
        """The type that a specification names. Raises BadSpec, NotFound."""
        said = read({name: _SPEC[name] for name in _NAMING}, {name: spec[name] for name in _NAMING if name in spec})
        return self.named(f"{said['type']}-{said['version']}")


_SPEC: dict[str, String] = {
    "type": String("The name of the type.", required=True),
    "version": String("The version of the type.", required=True),
    "description": String("What it is for."),
}
_NAMING = ("type", "version")
