"""What an agent keeps on its host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covey.agent.state_directory import AlreadyRunning, StateDirectory, StateNotWritable

HOLD = (
    "import sys; from pathlib import Path; from covey.agent.state_directory import StateDirectory;"
    "state = StateDirectory(Path(sys.argv[1])); state.lock(); print('locked', flush=True); sys.stdin.read()"
)


def test_one_agent_of_a_host_runs_at_a_time(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "new")
    assert state.holder() is None
    command = [sys.executable, "-c", HOLD, str(state.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        assert state.holder() == first.pid
        with pytest.raises(AlreadyRunning, match=rf"\(process {first.pid}\); it holds .*agent.lock"):
            state.lock()
        first.kill()
        first.wait()
        assert state.holder() is None
        state.lock()
    assert (state.path / "agent.lock").read_text() == f"{os.getpid()}\n"


def test_contact_of_another_boot_does_not_count(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert state.last_contact() is None
    state.save_contact(12.5)
    assert StateDirectory(tmp_path).last_contact() == 12.5
    file = tmp_path / "contact.json"
    file.write_text('{"boot": "another", "at_s": 12.5}')
    assert state.last_contact() is None
    file.write_text("half of a")
    assert state.last_contact() is None


def test_agent_does_not_start_if_it_could_store_no_contact(tmp_path: Path) -> None:
    """Its registration would be a lease of the host, and no guardian would know when it ends."""
    (tmp_path / "contact.json").symlink_to("/dev/full")
    with pytest.raises(StateNotWritable, match=r"contact.json: .*No space left on device"):
        StateDirectory(tmp_path).lock()


def test_agent_that_was_stopped_leaves_room_for_the_contacts_of_the_next_one(tmp_path: Path) -> None:
    state, file = StateDirectory(tmp_path), tmp_path / "contact.json"
    state.lock()
    assert state.last_contact() is None
    state.save_contact(1.0)
    before = file.stat()
    state.forget_contact()
    assert state.last_contact() is None
    after = file.stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (before.st_ino, before.st_size, before.st_blocks)


def test_contact_is_kept_on_a_full_disk(tmp_path: Path) -> None:
    """Otherwise a full disk would be a loss of contact, and end every guest."""
    state = StateDirectory(tmp_path)
    state.save_contact(1.0)
    file = tmp_path / "contact.json"
    before = file.stat()
    (tmp_path / "contact.json.partial").symlink_to("/dev/full")
    state.save_contact(1234567.125)
    assert state.last_contact() == 1234567.125
    after = file.stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (before.st_ino, before.st_size, before.st_blocks)
