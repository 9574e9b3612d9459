"""The real client of the Clustering API, `openstack cluster ...`, in its own virtual environment.

Its last release conflicts with the libraries that Covey uses. The environment has the commands of the Compute API, too:

    with Session(clustering(demo.cloud("demo"))) as member:
        member.json("cluster list")
"""

from dataclasses import replace
from pathlib import Path

from tests.acceptance.processes import Cloud
from tests.environments import HERE, prepared

_REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "clustering-client.txt"


def clustering(cloud: Cloud) -> Cloud:
    """Return the cloud with the clustering client, which the first use installs. Raises SubprocessError."""
    return replace(cloud, client=prepared(HERE / "clustering-client", _REQUIREMENTS) / "openstack")
