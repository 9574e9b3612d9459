"""What tells machines apart."""

from pathlib import Path

from covey.agent.machine import machine_id


def test_machines_differ_by_any_of_their_ids(tmp_path: Path) -> None:
    image, hardware, missing = tmp_path / "image", tmp_path / "hardware", tmp_path / "missing"
    image.write_text("4f3a\n")
    hardware.write_text("11-22\n")
    first = machine_id((image, hardware))
    assert first == machine_id((image, hardware))
    assert first is not None
    assert "4f3a" not in first
    hardware.write_text("33-44\n")
    assert machine_id((image, hardware)) != first, "a cloned image on other hardware"
    assert machine_id((image, missing)) == machine_id((image,))


def test_machine_without_an_id_has_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert machine_id((tmp_path / "missing", tmp_path / "empty")) is None
