"""Where the `openstack` command finds our commands: it reads these names, and calls these functions."""

import argparse
from typing import Any

from covey.client.api import Api

API_NAME = "covey"
API_VERSION_OPTION = "os_covey_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Api:  # noqa: ANN401 - the client's manager has attributes that no type knows
    """What commands find as `client_manager.covey`."""
    return Api(instance.sdk_connection)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """We add no options to all commands."""
    return parser
