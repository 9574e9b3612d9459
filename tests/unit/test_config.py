"""Options with deprecated names."""

from pathlib import Path

import pytest

from covey import config


@pytest.mark.parametrize("name", ["enable_forbidden_aggregates_filter", "enable_isolated_aggregate_filtering"])
def test_deprecated_name_of_the_forbidden_aggregates_filter_is_accepted(tmp_path: Path, name: str) -> None:
    file = tmp_path / "covey.conf"
    file.write_text(f"[scheduler]\n{name} = true\n")
    assert config.load([str(file)]).scheduler.enable_forbidden_aggregates_filter is True
    file.write_text("")
    assert config.load([str(file)]).scheduler.enable_forbidden_aggregates_filter is False
