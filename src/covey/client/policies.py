"""The policies of a group: how they are typed, and how a group with several of them is shown."""

from argparse import ArgumentTypeError, _ActionsContainer

from osc_lib.cli.parseractions import KeyValueAction

from covey.client.api import Json

KINDS = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def policy(text: str) -> str:
    """A policy, as it was typed. The service knows which scopes there are; we know the kinds."""
    if text.split(":", 1)[0] not in KINDS:
        raise ArgumentTypeError(f"{text!r} should be TYPE[:SCOPE[:IDENTIFIER]], with a TYPE of {', '.join(KINDS)}")
    return text


def add_policies(parser: _ActionsContainer, meaning: str) -> None:
    """The option that may be given several times, in the order that matters."""
    parser.add_argument("--policy", metavar="<policy>", action="append", type=policy, help=meaning)


def add_rules(parser: _ActionsContainer, meaning: str) -> None:
    """The option that may be given several times, for a key each."""
    parser.add_argument("--rule", metavar="<key=value>", action=KeyValueAction, dest="rules", help=meaning)


def shown(group: Json) -> Json:
    """A group without `policy`, which only repeats the first of its policies and its rules."""
    return {field: value for field, value in group.items() if field != "policy"}
