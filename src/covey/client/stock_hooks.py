"""What hooks of stock commands share: each changes what it needs to, and leaves the rest as it is."""

from abc import abstractmethod
from argparse import ArgumentParser, Namespace
from typing import Any

from cliff.command import Command
from cliff.hooks import CommandHook


class StockHook(CommandHook):
    """A hook of a stock command, found by cliff's entry points."""

    epilog: str

    def get_parser(self, parser: ArgumentParser) -> ArgumentParser:
        return parser

    def get_epilog(self) -> str:
        return self.epilog

    def before(self, parsed_args: Namespace) -> Namespace:
        return parsed_args

    def after(self, parsed_args: Namespace, return_code: int) -> int:  # noqa: ARG002
        return return_code


class ActionHook(StockHook):
    """A hook that runs in place of the command's action, which it can call."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.stock_action = command.take_action
        command.take_action = self.take_action  # type: ignore[method-assign]

    @abstractmethod
    def take_action(self, parsed_args: Namespace) -> Any:  # noqa: ANN401 -- as the stock command's
        """Carry out the command."""
