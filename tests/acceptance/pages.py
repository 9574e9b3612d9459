"""Runs the commands of a page of the guide in a shell, and compares their output with the page.

Comments directly before a block control its execution:

    <!-- first: COMMAND -->     run this command before the block; readers do not see it
    <!-- in another shell -->   start the commands in the background
    <!-- typed: TEXT -->        the answer to each prompt of the last command
    <!-- file: NAME -->         write the block to this file
    <!-- ends with: N -->       the expected status of the last command, instead of 0
    <!-- not run: WHY -->       skip the block

A JSON block without a file is the expected output of the last command. An ellipsis matches any text.
"""

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.acceptance.processes import (
    COMMAND_TIMEOUT_S,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    Failed,
    environment,
    is_healthy,
)

ROOT = Path(__file__).parents[2]
_CLONE = (
    ".venv",
    "Makefile",
    "pyproject.toml",
    "requirements",
    "schemathesis.toml",
    "src",
    "tests",
)  # what pages use of a clone
_NOTE = re.compile(r"<!-- (.*?) -->", re.DOTALL)
_BLOCK = re.compile(r"((?:^ *<!-- (?:(?!-->).)*? -->\n)*)^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = "that was all, with status"
# The environment is ready, and the commands are preloaded.
_WARM = (
    'make() {{ {1} make -o .venv/.demo BIN={0} "$@"; }}; '
    'openstack() {{ {1} {0}/openstack "$@"; }}; covey() {{ {1} {0}/covey "$@"; }}'
)


@dataclass(frozen=True)
class Block:
    """One fenced block, and the comments before it."""

    language: str
    text: str
    notes: tuple[str, ...] = ()

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Return each command with its expected output."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif line.strip():
                found[-1][1].append(line)
        return found

    def noted(self, what: str) -> str | None:
        """Return the rest of a comment with this prefix; None without one."""
        found = (note.removeprefix(what).lstrip(": ") for note in self.notes if note.startswith(what))
        return next((" ".join(text.split()) for text in found), None)


def blocks_of(page: Path, otherwise: Mapping[str, str]) -> list[Block]:
    """Return the blocks of a page, with replaced texts."""
    text = page.read_text()
    for there, here in otherwise.items():
        text = text.replace(there, here)
    return [
        Block(language, re.sub(rf"^{indent}", "", inner, flags=re.MULTILINE), tuple(_NOTE.findall(notes)))
        for notes, indent, language, inner in _BLOCK.findall(text)
    ]


@dataclass
class Reader:
    """Executes a page in a directory that looks like a clone."""

    directory: Path
    warm: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    _shell: subprocess.Popen[str] = field(init=False)
    _others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _last: str = ""

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in _CLONE:
            (self.directory / name).symlink_to(ROOT / name)
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.directory,
            env=environment(self.directory, **self.variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._type(_WARM.format(self.warm, "command"))
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.wait()
        for other in self._others:
            os.killpg(other.pid, signal.SIGTERM)
            try:
                other.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(other.pid, signal.SIGKILL)
                other.wait()

    def follow(self, blocks: list[Block]) -> None:
        """Execute all blocks. Raises Failed at the first difference from the page."""
        for block in blocks:
            name, hidden = block.noted("file"), block.noted("first")
            if block.noted("not run") is not None:
                continue
            if hidden is not None:
                self._run_one(hidden, [])
            if name is not None:
                (self.directory / name).write_text(block.text)
            elif block.language == "console":
                self._run(block)
            elif block.language == "json":
                _compare(json.loads(block.text), json.loads(self._last), "the answer")
            else:
                raise Failed(f"No comment says how to use this block:\n{block.text}")

    def _run(self, block: Block) -> None:
        if block.noted("in another shell") is not None:
            for command, said in block.commands:
                self._start(command, said)
            return
        *others, (last, lines) = block.commands
        for command, wanted in others:
            self._run_one(command, wanted)
        self._run_one(last, lines, int(block.noted("ends with") or 0), block.noted("typed"))

    def _run_one(self, command: str, lines: list[str], wanted: int = 0, typed: str | None = None) -> None:
        status, self._last = self._type(command) if typed is None else self._converse(command, typed)
        if status != wanted:
            raise Failed(f"$ {command}\nended with status {status}:\n{self._last}")
        _expect(lines, self._last, command)

    def _start(self, command: str, said: list[str]) -> None:
        """Start a background command, and wait for its expected output and its port."""
        log = self.directory / f"other-{len(self._others)}.log"
        exported = self._type("export -p")[1]
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"{exported}\n{_WARM.format(self.warm, 'exec')}\n{command}"],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._others.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                _expect(said, log.read_text(), command)
                _expect_answers(log.read_text(), command)
            except Failed:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _converse(self, command: str, typed: str) -> tuple[int, str]:
        """Run a command that prompts, at a terminal, with one answer to every prompt."""
        ours, terminal = pty.openpty()
        exported = self._type("export -p")[1]
        process = subprocess.Popen(
            ["bash", "-c", f"{exported}\n{_WARM.format(self.warm, 'command')}\n{command}"],
            cwd=self.directory,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        said = b""
        with suppress(OSError):  # the terminal's other end is closed
            while part := os.read(ours, 4096):
                said += part
                if said.endswith(b": "):
                    os.write(ours, f"{typed}\n".encode())
        os.close(ours)
        return process.wait(COMMAND_TIMEOUT_S), said.decode()

    def _type(self, command: str) -> tuple[int, str]:
        """Return the status and the output of a command."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        timer = threading.Timer(COMMAND_TIMEOUT_S, self._shell.kill)
        timer.start()
        try:
            self._shell.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '\\n{_MARK} %s\\n' $?\n")
            self._shell.stdin.flush()
            lines: list[str] = []
            for line in self._shell.stdout:
                if line.startswith(_MARK):
                    return int(line.removeprefix(_MARK)), "".join(lines)
                lines.append(line)
        finally:
            timer.cancel()
        raise Failed(f"$ {command}\nended the shell:\n{''.join(lines)}")


def _expect(lines: list[str], output: str, command: str) -> None:
    """Raise Failed unless the output contains each line of the page."""
    written = [_squeezed(line) for line in output.splitlines()]
    for line in lines:
        if not any(_is_like(_squeezed(line), candidate) for candidate in written):
            raise Failed(f"$ {command}\ndid not write this line:\n{line}\nbut:\n{output}")


def _expect_answers(output: str, command: str) -> None:
    """Raise Failed unless every printed address is reachable."""
    for port in re.findall(r"http://127\.0\.0\.1:(\d+)", output):
        if not is_healthy(int(port)):
            raise Failed(f"$ {command}\ndoes not answer on port {port}:\n{output}")


def _is_like(shown: str, got: str) -> bool:
    """Return whether a text matches a pattern with ellipses."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), got, re.DOTALL) is not None


def _squeezed(line: str) -> str:
    """Return a line without the padding of table cells."""
    return re.sub(r"-{2,}", "--", " ".join(line.split()))


def _compare(shown: Any, got: Any, where: str) -> None:
    """Raise Failed unless the actual document contains the expected one."""
    if isinstance(shown, dict) and isinstance(got, dict):
        for key, value in shown.items():
            if key not in got:
                raise Failed(f"{where} has no {key!r}: {got}")
            _compare(value, got[key], f"{where}, {key}")
    elif isinstance(shown, list) and isinstance(got, list) and shown[-1:] == ["…"] and len(shown) <= len(got) + 1:
        _compare(shown[:-1], got[: len(shown) - 1], where)
    elif isinstance(shown, list) and isinstance(got, list) and len(shown) == len(got):
        for number, value in enumerate(shown):
            _compare(value, got[number], f"{where}, {number}")
    elif shown != got and not (isinstance(shown, str) and isinstance(got, str) and _is_like(shown, got)):
        raise Failed(f"{where} is {got!r}, not {shown!r}")
