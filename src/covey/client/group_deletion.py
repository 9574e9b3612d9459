"""The stock `openstack server group delete`, for groups whose policies are in Covey and whose members are in Nova.

Like `group_creation`, this is a hook of the stock command, which deletes in Nova.
"""

import logging
from argparse import Namespace
from collections.abc import Sequence

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from osc_lib.exceptions import CommandError

from covey.client.api import Api, NotFoundError
from covey.client.commands import api_of
from covey.client.nova_groups import URL
from covey.client.stock_hooks import ActionHook

_log = logging.getLogger(__name__)


class DeleteServerGroupHook(ActionHook):
    """A hook of the stock command."""

    epilog = "With Covey beside Nova, the group is deleted in both."

    def take_action(self, parsed_args: Namespace) -> None:
        api = api_of(self.cmd.app)
        ids = _ids(api, parsed_args.server_group) if api.is_beside_nova else []
        try:
            self.stock_action(parsed_args)
        finally:
            for group in ids:
                _delete_in_covey(api, group)


def _ids(api: Api, names: Sequence[str]) -> list[str]:
    """Return the ids of those groups that exist; the stock command reports the others."""
    found: list[str] = []
    for name in names:
        try:
            found.append(api.group(name))
        except SDKException:
            continue
    return found


def _delete_in_covey(api: Api, group: str) -> None:
    """Delete the policies of a group that Nova no longer has. Covey asks Nova whether it is gone."""
    try:
        api.nova("GET", URL, group)
    except NotFoundError:
        pass
    else:
        return
    try:
        api.delete(URL, group)
    except NotFoundError:
        return
    except (CommandError, SDKException, ClientException) as error:
        _log.warning("The policies of the server group %s remain in Covey until its next reading: %s", group, error)
