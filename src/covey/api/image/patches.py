"""Changes of image records: fields by name, and JSON patches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from covey.api.image import schemas
from covey.api.requests import Json
from covey.api.validation import Schema
from covey.model.access import OPERATORS
from covey.model.errors import Conflict, Forbidden, Invalid
from covey.model.ids import ProjectId
from covey.model.images import Image, Visibility

_UNCHANGEABLE = schemas.READ_ONLY | {"id"}
_CHECKS = {name: Schema({"type": "object", "properties": {name: schema}}) for name, schema in schemas.FIELDS.items()}
_PROPERTY = Schema({"type": "object", "additionalProperties": {"type": "string", "maxLength": 65535}})
_ATTRIBUTES = {
    "name": "name",
    "protected": "protected",
    "os_hidden": "hidden",
    "disk_format": "disk_format",
    "container_format": "container_format",
    "min_disk": "min_disk_gb",
    "min_ram": "min_ram_mb",
}
_REMOVABLE: dict[str, Any] = {"name": None, "disk_format": None, "container_format": None, "tags": []}


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a patch."""

    op: str
    name: str
    value: Any = None


def change(entry: Json) -> Change:
    """Return a validated entry of a patch. Raises Invalid for a bad value, Forbidden for a read-only field."""
    name = entry["path"][1:].replace("~1", "/").replace("~0", "~")
    if name in _UNCHANGEABLE:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if entry["op"] == "remove":
        return Change("remove", name)
    if "value" not in entry:
        raise Invalid(f'Operation "{entry["op"]}" requires a member named "value".')
    _CHECKS.get(name, _PROPERTY).check({name: entry["value"]})
    return Change(entry["op"], name, entry["value"])


def applied(changes: Iterable[Change], image: Image) -> Image:
    """Return the image after the changes, in their order. Raises Conflict for a missing property."""
    for step in changes:
        if step.op == "remove":
            image = _without(image, step.name)
        elif step.op == "replace" and step.name not in schemas.FIELDS and step.name not in image.properties:
            raise _missing(step.name)
        else:
            image = with_fields(image, {step.name: step.value})
    return image


def with_fields(image: Image, fields: Mapping[str, Any]) -> Image:
    """Return the image with validated fields set; other names are properties."""
    known: dict[str, Any] = {_ATTRIBUTES[name]: value for name, value in fields.items() if name in _ATTRIBUTES}
    if "visibility" in fields:
        known["visibility"] = Visibility(fields["visibility"])
    if "tags" in fields:
        known["tags"] = frozenset(fields["tags"])
    if "owner" in fields:
        known["owner"] = ProjectId(fields["owner"] or OPERATORS)
    properties = {name: value for name, value in fields.items() if name not in schemas.FIELDS}
    return replace(image, **known, properties={**image.properties, **properties})


def _without(image: Image, name: str) -> Image:
    if name in _REMOVABLE:
        return with_fields(image, {name: _REMOVABLE[name]})
    if name in schemas.FIELDS:
        raise Forbidden(f"Property {name} may not be removed.")
    if name not in image.properties:
        raise _missing(name)
    return replace(image, properties={key: value for key, value in image.properties.items() if key != name})


def _missing(name: str) -> Conflict:
    return Conflict(f"Property {name} does not exist.")
