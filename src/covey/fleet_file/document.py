"""Parses YAML into a tree with the line and column of every value and key.

The tree is built from parser events rather than with `yaml.compose`: its C code recurses, and a few hundred thousand
opening brackets crash the process.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import Reader
from yaml.resolver import Resolver

from covey.fleet_file.problems import Path, Plain, Problem, place, quoted

Mark: TypeAlias = tuple[int, int]
"""Line and column, counted from 1; a tuple, which the garbage collector does not track."""

MAX_DEPTH = 20
MAX_ALIASED_VALUES = 1_000_000
_MAX_NUMBER_LENGTH = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RANGE = re.compile(r"\[[0-9]+-[0-9]+\]")
_TAG = "tag:yaml.org,2002:"
_RESOLVER = Resolver()
_NUMBERS = SafeConstructor()


class UnreadableError(Exception):
    """The text is not YAML, or uses YAML that a fleet file does not allow."""

    def __init__(self, mark: Mark, message: str) -> None:
        """Store the problem that ended the parsing."""
        self.problem = _problem(mark, message)
        super().__init__(self.problem)


class Node(NamedTuple):
    """A value of the document with its position and its children.

    A tuple, because a large file has a million of them, and a dataclass takes four times as long to create.
    """

    plain: Plain
    mark: Mark
    text: str = ""
    children: "Mapping[str | int, Node]" = MappingProxyType({})
    key_marks: Mapping[str, Mark] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file, and the problems that did not end the parsing."""

    root: Node
    problems: tuple[Problem, ...] = ()

    def node(self, path: Path) -> Node:
        """Return the value at a path, or the innermost existing one on the way."""
        node = self.root
        for step in path:
            if step not in node.children:
                break
            node = node.children[step]
        return node

    def key_mark(self, path: Path) -> Mark:
        """Return the position of the key that a path ends with."""
        return self.node(path[:-1]).key_marks[str(path[-1])]


@dataclass(frozen=True, slots=True)
class ProblemCollector:
    """The problems so far. A position is looked up only for a problem."""

    document: Document
    problems: list[Problem] = field(default_factory=list)
    _faulty: set[Path] = field(default_factory=set, repr=False)

    def at(self, path: Path, message: str) -> None:
        """Report a value."""
        self._add(self.document.node(path).mark, path, message)

    def at_key(self, path: Path, message: str) -> None:
        """Report the key that the path ends with, not its value."""
        self._add(self.document.key_mark(path), path, message)

    def line(self, path: Path) -> int:
        """Return the line of a value."""
        return self.document.node(path).mark[0]

    def is_clean(self, path: Path) -> bool:
        """Return whether a section, or one of its entries, has no problem so far."""
        return path not in self._faulty

    def _add(self, mark: Mark, path: Path, message: str) -> None:
        self.problems.append(Problem(*mark, place(path), message))
        self._faulty.update((path[:1], path[:2]))


def compose(text: str) -> Document:
    """Parse the text. Raises UnreadableError."""
    bad = Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        before = text[: bad.start()].split("\n")
        raise UnreadableError(
            (len(before), len(before[-1]) + 1), f"the character {bad.group()!r} is not allowed in YAML"
        )
    composer = _Composer(text)
    try:
        return Document(composer.root(), tuple(composer.problems))
    except yaml.MarkedYAMLError as error:
        raise UnreadableError(_mark(error.problem_mark), _syntax(error, text)) from error


class _Composer:
    """Turns the stream of events into nodes, and limits what aliases multiply."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)  # the grammar determines the next kind
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._size = 0
        self._aliased = 0

    def root(self) -> Node:
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Node(None, (1, 1))
        node = self._node(next(self._events), depth=1)
        next(self._events)  # the end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise UnreadableError(_start(after), "a fleet file is one document; a second one starts here")
        return node

    def _node(self, event: yaml.NodeEvent, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise UnreadableError(_start(event), f"nested more than {MAX_DEPTH} levels deep")
        size_before = self._size
        self._size += 1
        node = self._inside(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node, self._size - size_before
        return node

    def _inside(self, event: yaml.NodeEvent, depth: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Node(_scalar(event), _start(event), event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            _reject_tag(event, "seq")
            return self._sequence(event, depth)
        mapping = cast("yaml.MappingStartEvent", event)
        _reject_tag(mapping, "map")
        return self._mapping(mapping, depth)

    def _alias(self, event: yaml.AliasEvent) -> Node:
        if event.anchor not in self._anchors:
            raise UnreadableError(_start(event), f"alias *{event.anchor} names no anchor that is complete before it")
        node, size = self._anchors[event.anchor]
        self._size += size
        self._aliased += size
        if self._aliased > MAX_ALIASED_VALUES:
            raise UnreadableError(_start(event), f"aliases repeat more than {MAX_ALIASED_VALUES:,} values")
        return node._replace(mark=_start(event))

    def _sequence(self, start: yaml.Event, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Node([item.plain for item in items], _start(start), children=dict(enumerate(items)))

    def _mapping(self, start: yaml.Event, depth: int) -> Node:
        children: dict[str | int, Node] = {}
        key_marks: dict[str, Mark] = {}
        merged: list[Node] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise UnreadableError(_start(event), "a key must be plain text")
            value = self._node(next(self._events), depth + 1)
            if _is_merge(event):
                merged += self._merged(value)
            elif event.value in children:
                self._repeated(event, key_marks[event.value])
            else:
                children[event.value] = value
                key_marks[event.value] = _start(event)
        for source in merged:
            children = {**source.children, **children}
            key_marks = {**source.key_marks, **key_marks}
        return Node({str(k): child.plain for k, child in children.items()}, _start(start), "", children, key_marks)

    def _merged(self, value: Node) -> list[Node]:
        """Return the mappings that a `<<` key merges, in order of precedence."""
        sources = list(value.children.values()) if isinstance(value.plain, list) else [value]
        if all(isinstance(source.plain, dict) for source in sources):
            return sources
        self.problems.append(_problem(value.mark, "'<<' takes a mapping, or a list of mappings"))
        return []

    def _repeated(self, event: yaml.ScalarEvent, first: Mark) -> None:
        message = f"key {quoted(event.value)} is written twice; the first is on line {first[0]}"
        self.problems.append(_problem(_start(event), message))


def _scalar(event: yaml.ScalarEvent) -> Plain:
    if event.tag in (None, "!"):
        return _plain(event.value) if event.implicit[0] else event.value
    _reject_tag(event, "str", "int", "float", "bool", "null")
    return _tagged(str(event.tag), event.value)


@lru_cache(maxsize=4096)
def _plain(text: str) -> Plain:
    """Return the value of an unquoted scalar."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return _tagged(tag, text)


def _tagged(tag: str, text: str) -> Plain:
    """Return the value of a scalar of JSON's types; other types, such as dates, remain text."""
    node = yaml.ScalarNode(tag, text)
    try:
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return bool(_NUMBERS.construct_yaml_bool(node))
            case "int" if len(text) <= _MAX_NUMBER_LENGTH:
                return int(_NUMBERS.construct_yaml_int(node))
            case "float":
                return float(_NUMBERS.construct_yaml_float(node))
    except (ValueError, KeyError):
        return text  # such as 0b_, which resolves as a number and is none
    return text


def _is_merge(event: yaml.ScalarEvent) -> bool:
    return event.value == "<<" and event.tag is None and bool(event.implicit[0])


def _reject_tag(event: yaml.ScalarEvent | yaml.CollectionStartEvent, *known: str) -> None:
    tag = event.tag or "!"
    if tag not in ("!", *(_TAG + name for name in known)):
        raise UnreadableError(_start(event), f"the tag {quoted(tag)} has no meaning here")


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    message = " ".join(filter(None, (error.problem, error.context)))
    line, _ = _mark(error.problem_mark)
    around = "\n".join(text.splitlines()[line - 1 : line])
    return f"{message}; a range needs quotes inside [...] or {{...}}" if _RANGE.search(around) else message


def _problem(mark: Mark, message: str) -> Problem:
    return Problem(*mark, "YAML", message)


def _start(event: yaml.Event) -> Mark:
    return _mark(event.start_mark)


def _mark(mark: object) -> Mark:
    """Return a mark counted from 1; PyYAML's two parsers have a class of marks each."""
    known = cast("yaml.Mark", mark)
    return known.line + 1, known.column + 1
