"""Options that go by two names."""

from pathlib import Path

import pytest

from covey import config


@pytest.mark.parametrize("name", ["enable_forbidden_aggregates_filter", "enable_isolated_aggregate_filtering"])
def test_novas_name_for_closed_aggregates_is_understood(tmp_path: Path, name: str) -> None:
    file = tmp_path / "covey.conf"
    file.write_text(f"[scheduler]\n{name} = true\n")
    assert config.load([str(file)]).scheduler.enable_forbidden_aggregates_filter is True
    file.write_text("")
    assert config.load([str(file)]).scheduler.enable_forbidden_aggregates_filter is False
