"""The replay of a stream of events on a fleet: the same stream and seed give the same outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST
from covey.model.ids import HostId
from covey.scheduler.violations import violations
from covey.simulation.cloud import Clock, Counts, SimulatedCloud
from covey.simulation.events import Event
from covey.simulation.initial_state import InitialState
from covey.simulation.metrics import History, MetricsRecorder, classes_of
from covey.simulation.what_ifs import WhatIf

SAMPLES = 200  # of the metrics, in a run


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The groups at the end of a run."""

    groups: int  # with at least one desired member
    complete: int  # with all desired members
    empty: int  # without a member
    hard_violations: int  # groups that violate a hard policy
    soft_violations: int  # groups that violate a soft policy


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run."""

    counts: Counts
    history: History
    groups: GroupSummary
    decision_s: NDArray[np.float64]
    server_hosts: dict[str, str]  # the host of each server, by name


@dataclass(frozen=True, slots=True)
class Replay:
    """Replays a stream. Only the decision times depend on the clock."""

    start: InitialState
    stream: Sequence[Event]
    clock: Clock
    seed: int = 0
    evacuate: bool = False  # the servers of failed hosts

    def run(
        self, what_ifs: Sequence[WhatIf] = (), at: float = 0.5, progress: Callable[[int], None] = lambda _: None
    ) -> Outcome:
        """Replay all events, and apply the what-ifs after the share `at` of them. Raises Invalid."""
        cloud = SimulatedCloud(self.start, self.clock)
        recorder = MetricsRecorder(
            (HOST.name, *self.start.scopes), tuple(sorted(cloud.fleet.zones)), classes_of(cloud.fleet)
        )
        recorder.sample(cloud, 0.0)
        change_at = int(len(self.stream) * at) if what_ifs else -1
        every, now = max(1, len(self.stream) // SAMPLES), 0.0
        for number, event in enumerate(self.stream):
            if number == change_at:
                self._change(cloud, recorder, what_ifs, now)
            now = event.at
            self._apply(cloud, event, self.seed + number)
            if (number + 1) % every == 0:
                recorder.sample(cloud, now)
                progress(every)
        if change_at == len(self.stream):
            self._change(cloud, recorder, what_ifs, now)
        recorder.sample(cloud, now)
        progress(len(self.stream) % every)
        names = cloud.fleet.names
        server_hosts = {name: names[server.row] for name, server in cloud.servers.items()}
        return Outcome(
            cloud.counts, recorder.history(), summarize_groups(cloud), np.array(cloud.decision_s), server_hosts
        )

    def _apply(self, cloud: SimulatedCloud, event: Event, seed: int) -> None:
        if event.boot is not None:
            cloud.boot(event.boot, seed)
        elif event.delete is not None:
            cloud.delete(event.delete)
        elif event.grow is not None:
            cloud.grow(event.grow, seed)
        elif event.fail is not None:
            cloud.fail([cloud.row(event.fail)], seed, evacuate=self.evacuate)
        elif event.recover is not None:
            cloud.recover([cloud.row(event.recover)])

    def _change(self, cloud: SimulatedCloud, recorder: MetricsRecorder, what_ifs: Sequence[WhatIf], now: float) -> None:
        """Apply the what-ifs, with a sample before and after them."""
        recorder.sample(cloud, now)
        for what_if in what_ifs:
            what_if.apply(cloud, self.seed)
        recorder.changed_at_s = now
        recorder.sample(cloud, now)


def summarize_groups(cloud: SimulatedCloud) -> GroupSummary:
    """Return the number of complete, empty and violating groups, by the violations that an audit finds."""
    member_hosts = {name: dict[str, HostId]() for name in cloud.groups}
    for name, server in cloud.servers.items():
        if server.group is not None:
            member_hosts[server.group][name] = cloud.fleet.hosts[server.row].id
    desired = {name: group.desired for name, group in cloud.groups.items() if group.desired > 0}
    softness = [
        {violation.soft for violation in violations(group.view.policies, member_hosts[name], cloud.fleet)}
        for name, group in cloud.groups.items()
    ]
    return GroupSummary(
        groups=len(desired),
        complete=sum(len(member_hosts[name]) >= number for name, number in desired.items()),
        empty=sum(not member_hosts[name] for name in desired),
        hard_violations=sum(False in kinds for kinds in softness),
        soft_violations=sum(True in kinds for kinds in softness),
    )
