"""The option --config-file, without the service's modules: an agent needs none of them."""

import click

config_files_option = click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Configuration file; may be repeated. [default: the first covey.conf in ~/.covey, ~, /etc/covey and /etc]",
)
