"""The real client of the Clustering API works with the demo's clouds.yaml."""

from collections.abc import Iterator

import pytest

from tests.acceptance.clustering_client import clustering
from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Session


@pytest.fixture(scope="module")
def member(demo: Demo) -> Iterator[Session]:
    with Session(clustering(demo.cloud("demo"))) as session:
        yield session


def test_client_creates_a_cluster_with_the_demo_clouds_yaml(demo: Demo, member: Session) -> None:
    spec = demo.covey.directory / "profile.yaml"
    spec.write_text("type: os.nova.server\nversion: 1.0\nproperties: {flavor: small, image: linux}\n")
    assert member.json(f"cluster profile create --spec-file {spec} web")["type"] == "os.nova.server-1.0"
    assert member.json("cluster create --profile web --desired-capacity 0 web")["name"] == "web"
    assert [row["name"] for row in member.json("cluster list")] == ["web"]
    assert member.json("cluster receiver create --cluster web --action CLUSTER_SCALE_OUT hook")["name"] == "hook"
