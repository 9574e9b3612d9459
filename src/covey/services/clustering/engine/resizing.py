"""CLUSTER_RESIZE: another size, other bounds, or both."""

from dataclasses import dataclass, replace

from covey.model.clustering.actions import Verb
from covey.model.clustering.checks.outcomes import placements
from covey.model.clustering.clusters import Cluster
from covey.model.clustering.limits import Limits
from covey.model.clustering.sizes import NewSize, read_resize, resized
from covey.services.clustering.engine.child_actions import units_of
from covey.services.clustering.engine.growth import Growth
from covey.services.clustering.engine.removal import Removal, may_reduce
from covey.services.clustering.engine.run import Run, Step
from covey.services.clustering.engine.shrinking import Choice, destroys
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Resize:
    """The bounds change even where no node is made or removed."""

    store: Store
    growth: Growth
    removal: Removal
    choice: Choice
    limits: Limits

    def begin(self, run: Run) -> Step:
        cluster, data, most = run.the_cluster, run.action.data, self.limits.nodes
        size = resized(read_resize(run.action.inputs, most), cluster, len(cluster.nodes), most)

        def change(same: Cluster) -> Cluster:
            return _with(same, size, keeps_desired=size.growth < 0 and not may_reduce(data))

        if size.growth >= 0:
            return self.growth.grow(run, placements(data, size.growth), change)
        going = self.choice.of(cluster, data, -size.growth)
        return self.removal.begin(run, going, change, destroy=destroys(data))

    def go_on(self, run: Run) -> Step:
        with self.store.read() as tx:
            grows = bool(units_of(tx, run.action, Verb.NODE_CREATE))
        return self.growth.settle(run) if grows else self.removal.go_on(run)


def _with(cluster: Cluster, size: NewSize, *, keeps_desired: bool) -> Cluster:
    desired = cluster.desired_capacity if keeps_desired else size.desired_capacity
    return replace(cluster, min_size=size.min_size, max_size=size.max_size, desired_capacity=desired)
