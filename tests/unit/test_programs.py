"""`make programs` installs what can be used here, and says what it does."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests import programs
from tests.programs import PROGRAMS, Program


class System:
    """Records commands; none of them runs. `installs` makes programs found."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, status: int = 0, is_there: bool = False) -> None:
        self.commands: list[str] = []
        self.status, self.is_there, self.has_module = status, is_there, False
        monkeypatch.setattr(programs, "_privilege", list)
        monkeypatch.setattr(Program, "path", lambda _: "/usr/sbin/libvirtd" if self.is_there else None)
        monkeypatch.setattr(Program, "is_installed", lambda _: self.is_there and self.has_module)
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        self.commands.append(Path(command[0]).name)
        self.has_module = self.has_module or "pip" in command
        return subprocess.CompletedProcess(command, self.status, "Unpacking a package", "")


@pytest.fixture
def libvirt(monkeypatch: pytest.MonkeyPatch) -> Program:
    program = replace(PROGRAMS["libvirt"], obstacle=lambda: None)
    monkeypatch.setattr(programs, "PROGRAMS", {"libvirt": program})
    return program


@pytest.mark.usefixtures("libvirt")
def test_module_of_a_program_that_was_installed_by_hand_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, is_there=True)
    programs.main()
    assert system.commands == ["uv"]


@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(("status", "shows"), [(0, False), (1, True)])
def test_output_of_apt_is_shown_if_it_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, shows: bool
) -> None:
    System(monkeypatch, status=status)
    programs.main()
    assert ("Unpacking a package" in capsys.readouterr().out) == shows


def test_program_that_cannot_run_here_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], libvirt: Program
) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", {"libvirt": replace(libvirt, obstacle=lambda: "it needs namespaces")})
    system = System(monkeypatch)
    programs.main()
    assert system.commands == []
    assert "libvirt cannot run here, and is not installed: it needs namespaces." in capsys.readouterr().out
