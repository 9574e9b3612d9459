"""`covey config sample` and `covey policy sample`: sample configuration files."""

from importlib.metadata import entry_points

import click
from oslo_config import generator as options
from oslo_policy import generator as rules

_NAMESPACES = ("covey", "oslo.policy", "oslo.messaging", "keystonemiddleware.auth_token")  # the last two are extras


@click.group()
def config() -> None:
    """Print a sample covey.conf."""


@config.command("sample")
def config_sample() -> None:
    """Print a covey.conf with every option, its help and its default, commented out.

    \b
    Each option can also be set in the environment, as OS_GROUP__OPTION:
      OS_API__PORT=9000 covey serve
    """
    installed = {found.name for found in entry_points(group="oslo.config.opts")}
    options.main([f"--namespace={name}" for name in _NAMESPACES if name in installed])


@click.group()
def policy() -> None:
    """Print a sample policy.yaml."""


@policy.command("sample")
def policy_sample() -> None:
    """Print a policy.yaml with every access rule, its requests and its default, commented out."""
    rules.generate_sample(["--namespace", "covey"])
