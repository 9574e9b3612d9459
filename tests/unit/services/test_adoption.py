"""The microversion that an adoption uses."""

import pytest

from covey.model.errors import Invalid
from covey.services.adoption.original import negotiate


def document(newest: str) -> dict[str, object]:
    return {"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": newest, "status": "CURRENT"}]}


@pytest.mark.parametrize(("newest", "used"), [("1.28", "1.28"), ("1.36", "1.36"), ("1.39", "1.39"), ("1.100", "1.39")])
def test_newest_version_that_both_know_is_used(newest: str, used: str) -> None:
    assert negotiate(document(newest)) == used


def test_original_without_consumer_generations_is_refused() -> None:
    with pytest.raises(Invalid, match=r"microversions up to 1\.9; 1\.28 is needed"):
        negotiate(document("1.9"))
