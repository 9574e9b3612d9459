"""Profile types and policy types: the schema of their specs and their operations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from covey.model.clustering.errors import BadSpec, not_found
from covey.model.clustering.spec_schema import Map, Schema, String, read
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on nodes of a profile type."""

    description: str
    parameters: Schema = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpecType:
    """One version of a profile type or policy type."""

    name: str
    version: str
    since: str
    properties: Schema
    operations: Mapping[str, Operation] = field(default_factory=dict)
    status: str = "SUPPORTED"

    @property
    def full_name(self) -> str:
        """The name with the version."""
        return f"{self.name}-{self.version}"

    def read(self, spec: Document) -> dict[str, object]:
        """Return the properties of a spec, with defaults. Raises BadSpec."""
        whole = read(
            _SPEC | {"properties": Map("The properties of the spec.", required=True, items=self.properties)}, spec
        )
        properties = whole["properties"]
        assert isinstance(properties, dict)
        return properties

    def check_operation(self, name: str, parameters: Document) -> None:
        """Raises Invalid for an operation that the type does not have, and for wrong parameters."""
        operation = self.operations.get(name)
        if operation is None:
            raise Invalid(f"The requested operation '{name}' is not supported by the profile type '{self.full_name}'.")
        try:
            read(operation.parameters, parameters)
        except BadSpec as error:
            raise Invalid(f"{error.message}.") from error


class SpecTypes:
    """All types of one kind: profile_type or policy_type."""

    def __init__(self, kind: str, types: Iterable[SpecType]) -> None:
        self._kind, self._types = kind, {known.full_name: known for known in types}

    def __iter__(self) -> Iterator[SpecType]:
        return iter(self._types.values())

    def named(self, full_name: str) -> SpecType:
        """Return a type by its full name. Raises NotFound."""
        found = self._types.get(full_name)
        if found is None:
            raise not_found(self._kind, full_name)
        return found

    def of(self, spec: Document) -> SpecType:
        """Return the type that a spec names. Raises BadSpec, NotFound."""
        named = read({name: _SPEC[name] for name in _NAMING}, {name: spec[name] for name in _NAMING if name in spec})
        return self.named(f"{named['type']}-{named['version']}")


_SPEC: dict[str, String] = {
    "type": String("The name of the type.", required=True),
    "version": String("The version of the type.", required=True),
    "description": String("A description."),
}
_NAMING = ("type", "version")
