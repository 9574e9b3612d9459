"""x"""
from tests.functional.fleets import Cloud
def test_one(cloud: Cloud) -> None:
    s = cloud.boot()
    assert cloud.status(s) == "ACTIVE"
    cloud.delete(s)
    assert cloud.is_empty()
def test_two(cloud: Cloud) -> None:
    s = cloud.boot()
def test_three(cloud: Cloud) -> None:
    s = cloud.boot()
    cloud.did(cloud.admin, s, "migrate")
    cloud.did(cloud.admin, s, "confirmResize")
