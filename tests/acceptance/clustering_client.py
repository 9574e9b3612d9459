"""The real client of the clustering API, `openstack cluster ...`, in an environment of its own.

Its last release does not go together with the libraries that we use ourselves. The commands of the compute API are
there too, so one such client does for a whole story:

    with Session(clustering(demo.cloud("demo"))) as member:
        member.json("cluster list")
"""

from dataclasses import replace
from pathlib import Path

from tests.acceptance.processes import Cloud
from tests.environments import HERE, prepared

_REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "clustering-client.txt"


def clustering(cloud: Cloud) -> Cloud:
    """The same cloud by the client that knows clusters; its first use takes a while. Raises SubprocessError."""
    return replace(cloud, client=prepared(HERE / "clustering-client", _REQUIREMENTS) / "openstack")
