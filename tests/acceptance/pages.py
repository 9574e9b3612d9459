"""Follows a page of the guide to the letter: types its commands into a shell, and holds what comes back against it.

A comment right before a block says what is special about it:

    <!-- in another shell -->   it goes on running while the rest of the page is followed
    <!-- file: NAME -->         the block is what stands in that file
    <!-- ends with: N -->       the status of the last command, instead of 0
    <!-- not run: WHY -->       it can't be run here

A JSON block without a comment is what the last command wrote. An ellipsis stands for whatever there is.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.acceptance.processes import COMMAND_TIMEOUT_S, START_TIMEOUT_S, STOP_TIMEOUT_S, Failed, environment

ROOT = Path(__file__).parents[2]
_CLONE = (".venv", "Makefile", "pyproject.toml", "requirements", "src")  # what pages use of a clone
_BLOCK = re.compile(r"(?:^ *<!-- ([^\n]*?) -->\n)?^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = "that was all, with status"
_PREPARED = 'make() { command make -o .venv/.demo "$@"; }'  # what the tests run in is ready


@dataclass(frozen=True)
class Block:
    """One fenced block, and what the comment before it says."""

    language: str
    text: str
    note: str = ""

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command with the lines that it is said to write."""
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
        """What stands after a word of the comment; None without it."""
        return self.note.removeprefix(what).lstrip(": ") if self.note.startswith(what) else None


def blocks_of(page: Path, otherwise: Mapping[str, str]) -> list[Block]:
    """The blocks of a page, with what is otherwise here than there."""
    text = page.read_text()
    for there, here in otherwise.items():
        text = text.replace(there, here)
    return [
        Block(language, re.sub(rf"^{indent}", "", inner, flags=re.MULTILINE), note)
        for note, indent, language, inner in _BLOCK.findall(text)
    ]


@dataclass
class Reader:
    """Somebody who does what a page says, in a directory that looks like a clone."""

    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
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
        self._type(_PREPARED)
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
        """Do it all. Raises Failed at the first thing that is not as the page says."""
        for block in blocks:
            name = block.noted("file")
            if block.noted("not run") is not None:
                self.not_run.append(block.note)
            elif name is not None:
                (self.directory / name).write_text(block.text)
            elif block.language == "console":
                self._run(block)
            elif block.language == "json":
                _compare(json.loads(block.text), json.loads(self._last), "the answer")
            else:
                raise Failed(f"Nothing says what this block is for:\n{block.text}")

    def _run(self, block: Block) -> None:
        if block.note.startswith("in another shell"):
            for command, said in block.commands:
                self._start(command, said)
            return
        wanted = int(block.noted("ends with") or 0)
        for number, (command, lines) in enumerate(block.commands, 1):
            status, self._last = self._type(command)
            if status != (wanted if number == len(block.commands) else 0):
                raise Failed(f"$ {command}\nended with status {status}:\n{self._last}")
            _expect(lines, self._last, command)

    def _start(self, command: str, said: list[str]) -> None:
        """Run it beside the rest, and wait until it has said what the page shows."""
        log = self.directory / f"other-{len(self._others)}.log"
        exported = self._type("export -p")[1]
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"{exported}\n{_PREPARED}\n{command}"],
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
            except Failed:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _type(self, command: str) -> tuple[int, str]:
        """The status of a command, and all that it wrote."""
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
    """Each line of the page is among those that were written. Raises Failed."""
    written = [_squeezed(line) for line in output.splitlines()]
    for line in lines:
        pattern = ".*".join(map(re.escape, _squeezed(line).split("…")))
        if not any(re.fullmatch(pattern, candidate) for candidate in written):
            raise Failed(f"$ {command}\ndid not write this line:\n{line}\nbut:\n{output}")


def _squeezed(line: str) -> str:
    """Without the spaces that fill a table's cells."""
    return re.sub(r"-{2,}", "--", " ".join(line.split()))


def _compare(shown: Any, got: Any, where: str) -> None:
    """What the page shows is there, whatever else is. Raises Failed."""
    if isinstance(shown, dict) and isinstance(got, dict):
        for key, value in shown.items():
            if key not in got:
                raise Failed(f"{where} has no {key!r}: {got}")
            _compare(value, got[key], f"{where}, {key}")
    elif isinstance(shown, list) and isinstance(got, list) and len(shown) == len(got):
        for number, value in enumerate(shown):
            _compare(value, got[number], f"{where}, {number}")
    elif shown != got and not (isinstance(shown, str) and "…" in shown and isinstance(got, str)):
        raise Failed(f"{where} is {got!r}, not {shown!r}")
