"""All policies and rules of groups in the stock `openstack server group show` and `server group list`.

The stock commands show the first policy. Like `group_creation`, these are hooks of the stock commands: the columns stay
those of the stock client at the user's microversion. With another compute service than Covey, the output stays, unless
the cloud has Covey beside it.
"""

import logging
from abc import abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from osc_lib.cli.format_columns import DictColumn
from osc_lib.exceptions import CommandError

from covey.client.api import Api, Json, NotFoundError
from covey.client.commands import UnsortedListColumn, api_of
from covey.client.nova_groups import URL
from covey.client.stock_hooks import ActionHook

_log = logging.getLogger(__name__)

Output = tuple[Sequence[str], Any]


class _Hook(ActionHook):
    """Completes the output of a stock command."""

    epilog = "With Covey, all policies and rules of a group are shown."

    def take_action(self, parsed_args: Namespace) -> Output:
        columns, values = self.stock_action(parsed_args)
        output = columns, tuple(values)  # the rows of a list come from a generator
        try:
            return self.complete(parsed_args, output)
        except (CommandError, SDKException, ClientException) as error:
            if api_of(self.cmd.app).is_beside_nova and not isinstance(error, NotFoundError):
                _log.warning("These are the policies in Nova; Covey does not answer: %s", error)
            return output  # of another service, which does not know the version

    @abstractmethod
    def complete(self, parsed_args: Namespace, output: Output) -> Output:
        """Return the output with all policies and rules. Raises CommandError."""


class ShowServerGroupHook(_Hook):
    """A hook of the stock `server group show`."""

    def complete(self, parsed_args: Namespace, output: Output) -> Output:  # noqa: ARG002 -- the stock command found it
        columns, values = output
        shown = dict(zip(columns, values, strict=True))
        group = api_of(self.cmd.app).get(URL, str(shown["id"]))["server_group"]
        shown = _completed(shown, group) | {"rules": DictColumn(group["rules"])}
        names = sorted(shown)
        return tuple(names), tuple(shown[name] for name in names)


class ListServerGroupHook(_Hook):
    """A hook of the stock `server group list`."""

    def complete(self, parsed_args: Namespace, output: Output) -> Output:
        columns, rows = output
        api = api_of(self.cmd.app)
        query = {"all_projects": "true"} if parsed_args.all_projects else {}
        if api.is_beside_nova:
            known = _in_both(api, query)
        else:
            query |= {n: str(getattr(parsed_args, n)) for n in ("limit", "offset") if getattr(parsed_args, n, None)}
            known = _by_id(api.get(URL, **query)["server_groups"])
        return (*columns, "Rules"), [_row(columns, row, known) for row in rows]


def _in_both(api: Api, query: dict[str, str]) -> dict[str, Json]:
    """Return all groups with Covey's policies; one that Covey does not know, with Nova's."""
    of_nova = _pages(lambda offset: api.nova("GET", URL, params=query | offset))
    as_policies = ({**group, "policies": [group["policy"]]} for group in of_nova)
    return _by_id(as_policies) | _by_id(_pages(lambda offset: api.get(URL, **query, **offset)))


def _pages(get: Callable[[dict[str, str]], Json]) -> Iterator[Json]:
    """Yield the groups of a listing. It has offsets in place of markers."""
    offset = 0
    while page := get({"offset": str(offset)})["server_groups"]:
        yield from page
        offset += len(page)


def _by_id(groups: Iterable[Json]) -> dict[str, Json]:
    return {group["id"]: group for group in groups}


def _row(columns: Sequence[str], row: Iterable[object], groups: Mapping[str, Json]) -> tuple[object, ...]:
    shown = dict(zip(columns, row, strict=True))
    group = groups.get(str(shown["ID"]))
    if group is None:  # created or deleted in between
        return (*shown.values(), DictColumn({}))
    return (*_completed(shown, group).values(), DictColumn(group["rules"]))


def _completed(shown: Mapping[str, object], group: Json) -> dict[str, object]:
    """Return the columns with all policies: as one text where the stock client shows one, else as a list."""
    policies = group["policies"]
    complete = {"policy": ", ".join(policies), "policies": UnsortedListColumn(policies)}
    return {name: complete.get(name.lower(), value) for name, value in shown.items()}
