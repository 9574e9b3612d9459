"""The query grammar of the Placement API: request groups of resources, traits, aggregates and trees.

`read_query` is for allocation candidates, `read_filters` for the list of resource providers.
"""

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

import jsonschema
from jsonschema.exceptions import best_match

from covey.api.placement.microversions import CANDIDATES
from covey.api.validation import FORMATS, JsonSchema, is_uuid
from covey.api.versions import Version, Versioned
from covey.model.errors import Invalid
from covey.scheduler.candidates import CandidateQuery, RequestGroup
from covey.scheduler.candidates.queries import UNSUFFIXED, AnyOf

LIMIT, TRAITS, MEMBER_OF = Version(1, 16), Version(1, 17), Version(1, 21)
FORBIDDEN_TRAITS, REPEATED_MEMBER_OF, GROUPS = Version(1, 22), Version(1, 24), Version(1, 25)
WHOLE_TREES, IN_TREE, FORBIDDEN_AGGREGATES = Version(1, 29), Version(1, 31), Version(1, 32)
LONG_SUFFIXES, ROOT_REQUIRED, SAME_SUBTREE, ANY_TRAITS = Version(1, 33), Version(1, 35), Version(1, 36), Version(1, 39)

Parameters = Mapping[str, list[str]]
"""All values of each parameter."""

_NUMBER, _WORD = "[1-9][0-9]*", "[a-zA-Z0-9_-]{1,64}"
_PARAMETERS = ("resources", "required", "member_of", "in_tree")
_FIRST_VALUE_WINS = {"limit", "group_policy"}  # when repeated; of others the last value wins, or all apply
_MAX_LIMIT_DIGITS = 9  # a longer limit means no limit


class DuplicateKey(Invalid):
    """A query of the Placement API repeats a parameter that must be unique."""

    code = "duplicate_key"


class BadValue(Invalid):
    """A parameter of a query for allocation candidates contradicts another one."""

    code = "bad_value"


class MissingValue(Invalid):
    """A query for allocation candidates requests no resources."""

    code = "missing_value"


class QuerySchema:
    """The parameters of a route. The last value of a repeated parameter is validated."""

    def __init__(self, schema: JsonSchema) -> None:
        self._validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)

    def check(self, parameters: Parameters) -> None:
        """Raise Invalid with the message of jsonschema, as Placement does."""
        error = best_match(self._validator.iter_errors({name: values[-1] for name, values in parameters.items()}))
        if error is not None:
            raise Invalid(f"Invalid query string parameters: {error}")


_TEXT: JsonSchema = {"type": "string"}
_LIMIT: JsonSchema = {"type": ["integer", "string"], "pattern": "^[1-9][0-9]*$", "minimum": 1, "minLength": 1}
_POLICY: JsonSchema = {"type": "string", "enum": ["none", "isolate"]}


def _plain(*names: str) -> QuerySchema:
    properties = {name: _LIMIT if name == "limit" else _TEXT for name in names}
    return QuerySchema(
        {"type": "object", "properties": properties, "required": ["resources"], "additionalProperties": False}
    )


def _grouped(suffix: str, names: Iterable[str], *others: str) -> QuerySchema:
    properties = {"limit": _LIMIT, "group_policy": _POLICY, **dict.fromkeys(others, _TEXT)}
    patterns = {f"^{name}({suffix})?$": _TEXT for name in names}
    return QuerySchema(
        {"type": "object", "properties": properties, "patternProperties": patterns, "additionalProperties": False}
    )


_SCHEMAS = Versioned(
    {
        CANDIDATES: _plain("resources"),
        LIMIT: _plain("resources", "limit"),
        TRAITS: _plain("resources", "limit", "required"),
        MEMBER_OF: _plain("resources", "limit", "required", "member_of"),
        GROUPS: _grouped(_NUMBER, _PARAMETERS[:3]),
        IN_TREE: _grouped(_NUMBER, _PARAMETERS),
        LONG_SUFFIXES: _grouped(_WORD, _PARAMETERS),
        ROOT_REQUIRED: _grouped(_WORD, _PARAMETERS, "root_required"),
        SAME_SUBTREE: _grouped(_WORD, _PARAMETERS, "root_required", "same_subtree"),
    }
)
_KEYS = Versioned(
    {
        CANDIDATES: re.compile(rf"({'|'.join(_PARAMETERS)})({_NUMBER})?"),
        LONG_SUFFIXES: re.compile(rf"({'|'.join(_PARAMETERS)})({_WORD})?"),
    }
)


def read_query(parameters: Parameters, version: Version) -> tuple[CandidateQuery, int | None]:
    """Return the query for allocation candidates, and its limit. Raises Invalid."""
    parameters = {**parameters, **{name: parameters[name][:1] for name in _FIRST_VALUE_WINS & parameters.keys()}}
    _SCHEMAS.at(version).check(parameters)
    required, forbidden = _root_required(parameters.get("root_required", []))
    subtrees = tuple(_suffixes(value) for value in parameters.get("same_subtree", []))
    groups = _groups(parameters, version)
    if version >= SAME_SUBTREE:
        _check_resourceless(groups, subtrees)
    else:
        _check_orphans(groups)
    _check_conflicts(groups)
    policy = parameters.get("group_policy")
    if policy is None and sum(suffix != UNSUFFIXED for suffix in groups) > 1:
        raise Invalid(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    isolate = policy == ["isolate"]
    nested = version >= WHOLE_TREES
    return CandidateQuery(tuple(groups.values()), isolate, required, forbidden, subtrees, nested), _limit(parameters)


def read_filters(parameters: Parameters, version: Version) -> RequestGroup:
    """Return the filters of a list of resource providers, besides name and uuid. Raises Invalid."""
    return read_group(parameters, UNSUFFIXED, version)


def read_group(parameters: Parameters, suffix: str, version: Version) -> RequestGroup:
    """Return the request group of a suffix. Raises Invalid with the value and the expected form."""
    required, forbidden = read_traits(parameters.get(f"required{suffix}", []), version)
    inside, outside = read_member_of(parameters.get(f"member_of{suffix}", []), suffix, version)
    resources, tree = parameters.get(f"resources{suffix}"), parameters.get(f"in_tree{suffix}")
    return RequestGroup(
        suffix,
        {} if resources is None else read_resources(resources[-1]),
        required,
        forbidden,
        inside,
        outside,
        None if tree is None else read_in_tree(tree[-1]),
    )


def read_resources(value: str) -> dict[str, int]:
    """Parse `CLASS:n,CLASS:n`. Raises Invalid."""
    form = "Badly formed resources parameter. Expected resources query string parameter in form: "
    form += "?resources=VCPU:2,MEMORY_MB:1024."
    if not value.strip():
        raise Invalid(f"{form} Got: empty string.")
    amounts: dict[str, int] = {}
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon or ":" in text:
            raise Invalid(f"{form} Got: {part}.")
        amounts[name] = _amount(name, text)
    return amounts


def _amount(name: str, text: str) -> int:
    try:
        amount = int(text)
    except ValueError as error:
        raise Invalid(f"Requested resource {name} expected positive integer amount. Got: {text}.") from error
    if amount < 1:
        raise Invalid(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amount


def read_traits(values: list[str], version: Version) -> tuple[AnyOf, frozenset[str]]:
    """Parse `T1,!T2` and `in:T1,T2`: one of each required set, and forbidden traits. Raises Invalid."""
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values if version >= ANY_TRAITS else values[-1:]:
        if value.startswith("in:"):
            required.append(_any_of_traits(value, version))
        else:
            all_required, all_forbidden = _all_of_traits(value, may_forbid=version >= FORBIDDEN_TRAITS)
            required += [frozenset({trait}) for trait in all_required]
            forbidden |= all_forbidden
    return tuple(required), frozenset(forbidden)


def _any_of_traits(value: str, version: Version) -> frozenset[str]:
    form = "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"
    if version < ANY_TRAITS:
        raise Invalid(f"Invalid query string parameters: {form} only supported since microversion 1.39. Got: {value}")
    traits = frozenset(trait.strip() for trait in value.removeprefix("in:").split(","))
    if "" in traits:
        raise Invalid(
            "Invalid query string parameters: Expected 'required' parameter value of the form: "
            f"in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: {value}"
        )
    if any(trait.startswith("!") for trait in traits):
        raise Invalid(f"Invalid query string parameters: {form} does not support forbidden traits. Got: {value}")
    return traits


def _all_of_traits(value: str, *, may_forbid: bool) -> tuple[list[str], set[str]]:
    traits = [trait.strip() for trait in value.split(",")]
    required = [trait for trait in traits if not trait.startswith("!")]
    forbidden = {trait.lstrip("!") for trait in traits if trait.startswith("!")}
    empty = "" in required or "" in forbidden
    if empty or (forbidden and not may_forbid):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        message = f"Invalid query string parameters: Expected 'required' parameter value of the form: {form}. "
        message += f"Got an empty trait in: {value}" if empty else f"Got: {value}"
        raise Invalid(message)
    return required, forbidden


def read_member_of(values: list[str], suffix: str, version: Version) -> tuple[AnyOf, frozenset[str]]:
    """Parse aggregates: one of each required set, and forbidden ones. Raises Invalid."""
    if len(values) > 1 and version < REPEATED_MEMBER_OF:
        raise Invalid(f"Multiple member_of{suffix} parameters are not supported")
    inside: list[frozenset[str]] = []
    outside: set[str] = set()
    for value in values:
        uuids = _aggregates(value)
        if not value.startswith("!"):
            inside.append(uuids)
            continue
        if version < FORBIDDEN_AGGREGATES:
            raise Invalid(f"Forbidden member_of{suffix} parameters are not supported in the specified microversion")
        outside |= uuids
    return tuple(inside), frozenset(outside)


def _aggregates(value: str) -> frozenset[str]:
    listed = value.removeprefix("!")
    if "," in value and not listed.startswith("in:"):
        raise Invalid(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid "
            f"microversion. Got: {value}"
        )
    uuids = frozenset(listed.removeprefix("in:").split(","))
    for uuid in uuids:
        if not is_uuid(uuid):
            raise Invalid(
                f"Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). Got: {uuid}"
            )
    return uuids


def read_in_tree(value: str) -> str:
    """Parse the uuid of a provider, and return it with dashes. Raises Invalid."""
    text = value.strip()
    if not is_uuid(text):
        raise Invalid(
            f"Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: {value}"
        )
    return str(UUID(text))


def _groups(parameters: Parameters, version: Version) -> dict[str, RequestGroup]:
    pattern = _KEYS.at(version)
    found = (pattern.fullmatch(key) for key in parameters)
    suffixes = dict.fromkeys(match[2] or UNSUFFIXED for match in found if match)
    return {suffix: read_group(parameters, suffix, version) for suffix in suffixes}


def _limit(parameters: Parameters) -> int | None:
    text = parameters.get("limit", [""])[0].strip()
    return int(text) if text and len(text) <= _MAX_LIMIT_DIGITS else None


def _root_required(values: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    if len(values) > 1:
        raise DuplicateKey("Query parameter 'root_required' may be specified only once.")
    any_of, forbidden = read_traits(values, ROOT_REQUIRED)  # root_required never supports `in:`
    required = frozenset[str]().union(*any_of)
    if both := required & forbidden:
        names = ", ".join(sorted(both))
        raise BadValue(f"Conflicting required and forbidden traits found in root_required: {names}")
    return required, forbidden


def _suffixes(value: str) -> frozenset[str]:
    suffixes = frozenset(suffix.strip() for suffix in value.split(","))
    if UNSUFFIXED in suffixes:
        raise BadValue("Empty string (unsuffixed group) can not be specified in `same_subtree`")
    return suffixes


def _check_resourceless(groups: Mapping[str, RequestGroup], subtrees: Iterable[frozenset[str]]) -> None:
    """Raise MissingValue or BadValue, as Placement does, for groups without resources and unknown suffixes."""
    without = [suffix for suffix, group in groups.items() if not group.resources]
    if len(without) == len(groups):
        raise MissingValue("There must be at least one resources or resources[$S] parameter.")
    named = frozenset[str]().union(*subtrees)
    if stray := [suffix for suffix in without if suffix not in named]:
        raise BadValue(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {stray}."
        )
    if unknown := sorted(named - groups.keys()):
        raise BadValue(f"Real suffixes should be specified in `same_subtree`: {unknown} not found in {[*groups]}.")


def _check_orphans(groups: Mapping[str, RequestGroup]) -> None:
    """Raise Invalid unless every group has resources."""
    without = {suffix: group for suffix, group in groups.items() if not group.resources}
    if orphans := [f"required{suffix}" for suffix, group in without.items() if group.required]:
        raise Invalid(
            "All traits parameters must be associated with resources.  "
            f"Found the following orphaned traits keys: {', '.join(orphans)}"
        )
    if orphans := [f"member_of{s}" for s, group in without.items() if group.member_of or group.not_member_of]:
        raise Invalid(
            "All member_of parameters must be associated with resources. "
            f"Found the following orphaned member_of keys: {', '.join(orphans)}"
        )
    if without:
        raise Invalid("All request groups must specify resources.")
    if not groups:
        raise Invalid("At least one request group (`resources` or `resources{$S}`) is required.")


def _check_conflicts(groups: Mapping[str, RequestGroup]) -> None:
    clashes = sorted(
        f"required{suffix}: ({', '.join(sorted(traits))})"
        for suffix, group in groups.items()
        for traits in group.required
        if traits <= group.forbidden
    )
    if clashes:
        raise Invalid(
            f"Conflicting required and forbidden traits found in the following traits keys: {', '.join(clashes)}"
        )
