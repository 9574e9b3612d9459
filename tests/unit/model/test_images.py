"""Visibility of images."""

import pytest

from covey.model.ids import ProjectId
from covey.model.images import Visibility
from tests.build import an_image


@pytest.mark.parametrize("visibility", Visibility)
def test_owner_sees_every_image_and_others_only_public_and_community(visibility: Visibility) -> None:
    image = an_image(owner=ProjectId("web"), visibility=visibility)
    assert image.visible_to(ProjectId("web"))
    assert image.visible_to(ProjectId("db")) is (visibility in {Visibility.PUBLIC, Visibility.COMMUNITY})
