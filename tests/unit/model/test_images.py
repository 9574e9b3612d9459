"""Images: who may see one."""

import pytest

from covey.model.ids import ProjectId
from covey.model.images import Visibility
from tests.build import an_image


@pytest.mark.parametrize("visibility", Visibility)
def test_an_owner_sees_an_image_and_others_what_is_for_everybody(visibility: Visibility) -> None:
    image = an_image(owner=ProjectId("web"), visibility=visibility)
    assert image.visible_to(ProjectId("web"))
    assert image.visible_to(ProjectId("db")) is (visibility in {Visibility.PUBLIC, Visibility.COMMUNITY})
