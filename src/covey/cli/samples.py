"""`covey config sample` and `covey policy sample`: files to start from."""

from importlib.metadata import entry_points

import click
from oslo_config import generator as options
from oslo_policy import generator as rules

_NAMESPACES = ("covey", "oslo.policy", "oslo.messaging", "keystonemiddleware.auth_token")  # the last two are extras


@click.group()
def config() -> None:
    """The options: covey.conf."""


@config.command("sample")
def config_sample() -> None:
    """Write a covey.conf in which every option stands with its help and default, commented out.

    \b
    Each option can also come from the environment, as OS_GROUP__OPTION:
      OS_API__PORT=9000 covey serve
    """
    installed = {found.name for found in entry_points(group="oslo.config.opts")}
    options.main([f"--namespace={name}" for name in _NAMESPACES if name in installed])


@click.group()
def policy() -> None:
    """Who may do what: policy.yaml."""


@policy.command("sample")
def policy_sample() -> None:
    """Write a policy.yaml in which every access rule stands with what it guards and its default, commented out."""
    rules.generate_sample(["--namespace", "covey"])
