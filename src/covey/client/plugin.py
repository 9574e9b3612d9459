"""The entry point of the plugin: names and functions that the `openstack` command expects."""

import argparse
from typing import Any

from covey.client.api import Api

API_NAME = "covey"
API_VERSION_OPTION = "os_covey_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Api:  # noqa: ANN401 - the client's manager has attributes that no type knows
    """Return the value of `client_manager.covey`."""
    return Api(instance.sdk_connection)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser unchanged: the plugin has no global options."""
    return parser
