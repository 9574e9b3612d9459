"""Storage of the clustering resources: rows in, values out."""

from functools import cached_property

import sqlalchemy as sa

from covey.storage.clustering.actions import Actions, Locks
from covey.storage.clustering.bindings import Bindings
from covey.storage.clustering.clusters import Clusters
from covey.storage.clustering.events import Events
from covey.storage.clustering.history import History
from covey.storage.clustering.nodes import Nodes
from covey.storage.clustering.receivers import Engines, Receivers
from covey.storage.clustering.specs import Policies, Profiles


class Clustering:
    """The clustering tables in one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    @cached_property
    def actions(self) -> Actions:
        return Actions(self._connection)

    @cached_property
    def bindings(self) -> Bindings:
        return Bindings(self._connection)

    @cached_property
    def clusters(self) -> Clusters:
        return Clusters(self._connection)

    @cached_property
    def engines(self) -> Engines:
        return Engines(self._connection)

    @cached_property
    def events(self) -> Events:
        return Events(self._connection)

    @cached_property
    def history(self) -> History:
        return History(self._connection)

    @cached_property
    def locks(self) -> Locks:
        return Locks(self._connection)

    @cached_property
    def nodes(self) -> Nodes:
        return Nodes(self._connection)

    @cached_property
    def policies(self) -> Policies:
        return Policies(self._connection)

    @cached_property
    def profiles(self) -> Profiles:
        return Profiles(self._connection)

    @cached_property
    def receivers(self) -> Receivers:
        return Receivers(self._connection)
