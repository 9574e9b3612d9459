"""Preloaded `openstack` and `covey` commands, which skip the slow imports.

Importing either takes seconds, so a child imports both once, and forks for each command: a process of its own, with the
caller's arguments, directory, environment and streams. It is killed when its caller ends. The child runs this same file
as a script.

A script of its name calls a command. A test that signals the process itself calls it by `forked.py`.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from tests.acceptance.processes import START_TIMEOUT_S, Failed, environment

COMMANDS = {"openstack": "openstackclient.shell", "covey": "covey.cli.main"}  # modules with a main()
POLL_S = 0.1  # of the client's --wait, instead of 2 or 5 seconds
_MOST_BYTES = 1 << 17
_CALLER = """\
#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    asked = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ), False]).encode()
    socket.send_fds(server, [asked], [0, 1, 2])
    command = int(server.recv(16))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(command, number))
    status = int(server.recv(8) or 70)
    sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def warm_commands(directory: Path) -> Iterator[Path]:
    """Yield a directory with the two commands. Raises Failed."""
    address = directory / "socket"
    with (directory / "output.log").open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-u", "-m", __spec__.name, str(address)],
            cwd=Path(__file__).parents[2],
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # password prompts must not reach the terminal of the test run
        )
    try:
        _wait_for(address, child)
        for name in COMMANDS:
            caller = directory / name
            caller.write_text(_CALLER.format(python=sys.executable, address=str(address), name=name))
            caller.chmod(0o755)
        yield directory
    finally:
        child.kill()
        child.wait()


def _wait_for(address: Path, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not address.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"The commands did not get warm:\n{(address.parent / 'output.log').read_text()}")
        time.sleep(0.05)


def _serve(address: str) -> None:
    _import_all()
    _poll_often()
    gc.freeze()  # a collection in a fork would copy every page
    events = selectors.DefaultSelector()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        events.register(listener, selectors.EVENT_READ, partial(_start, listener, events))
        while True:
            key, _ = events.select()[0]  # one at a time: it may unregister others
            key.data()


def _import_all() -> None:
    """Import the commands' modules and the client's plugins."""
    for module in COMMANDS.values():
        importlib.import_module(module)
    for module, _ in importlib.import_module(COMMANDS["covey"]).COMMANDS.values():
        importlib.import_module(module)
    cached = importlib.import_module("stevedore._cache")
    for group in entry_points().groups:
        if group.startswith(("openstack.", "cliff.formatter.", "keystoneauth1.")):
            for found in cached.get_group_all(group):
                with suppress(Exception):  # plugins without their libraries
                    found.load()
    # The client reads the metadata of every installed package once in a process, for its help texts.
    importlib.import_module("cliff.command")._get_distributions_by_modules()


def _poll_often() -> None:
    often = SimpleNamespace(**vars(time) | {"sleep": lambda _: time.sleep(POLL_S)})
    for module in ("osc_lib.utils", "openstack.utils"):
        vars(importlib.import_module(module))["time"] = often


def _start(listener: socket.socket, events: selectors.BaseSelector) -> None:
    """Start the command that a caller requests, and wait for the end of either."""
    caller, _ = listener.accept()
    asked, streams, _, _ = socket.recv_fds(caller, _MOST_BYTES, 3)
    if not asked:  # it has ended already
        caller.close()
        return
    command = os.fork()
    if command == 0:
        for descriptor in [key.fd for key in events.get_map().values()]:
            os.close(descriptor)
        caller.close()
        _run(streams, *json.loads(asked))
    for stream in streams:
        os.close(stream)
    end = os.pidfd_open(command)
    events.register(end, selectors.EVENT_READ, partial(_report, events, caller, command, end))
    events.register(caller, selectors.EVENT_READ, partial(_kill, events, caller, command))
    _send(caller, command)


def _kill(events: selectors.BaseSelector, caller: socket.socket, command: int) -> None:
    """End a command whose caller has ended."""
    events.unregister(caller)
    os.kill(command, signal.SIGKILL)


def _report(events: selectors.BaseSelector, caller: socket.socket, command: int, end: int) -> None:
    """Tell the caller how its command ended."""
    events.unregister(end)
    os.close(end)
    with suppress(KeyError):
        events.unregister(caller)
    _, status = os.waitpid(command, 0)
    _send(caller, os.waitstatus_to_exitcode(status))
    caller.close()


def _send(caller: socket.socket, number: int) -> None:
    with suppress(OSError):  # it has ended
        caller.send(str(number).encode())


def _run(
    streams: list[int], name: str, arguments: list[str], directory: str, variables: dict[str, str], leads: bool
) -> NoReturn:
    """Run the requested command in this process, which may lead a session of its own."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if leads:
        os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [name, *arguments]
    status = _status_of(COMMANDS[name])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status_of(module: str) -> int:
    try:
        return int(sys.modules[module].main() or 0)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 -- as the interpreter would
        return end.code if isinstance(end.code, int) else int(end.code is not None)


if __name__ == "__main__":
    _serve(sys.argv[1])
