from covey.model.group_consumers import ConsumerHosts
from covey.model.groups import GroupState
from covey.model.ids import ProjectId

STATE = GroupState(1, ProjectId("web"), (), {1: 1}, {})
NONE_VACATED: frozenset[int] = frozenset()


def held(*rows: tuple[str, str, int]) -> ConsumerHosts:
    """Return the hosts of (member, consumer, host)."""
    found = ConsumerHosts()
    for member, consumer, host in rows:
        found.hold(member, consumer, {*found.held_by(member, consumer), host})
    return found


def test_members_of_both_services_count_together() -> None:
    assert held(("a", "a", 1), ("b", "b", 2)).added_to(STATE).members_by_host == {1: 2, 2: 1}


def test_moving_member_counts_on_both_hosts() -> None:
    state = held(("a", "a", 3), ("a", "migration", 2)).added_to(STATE)
    assert (state.members_by_host, state.migrating) == ({1: 1, 2: 1, 3: 1}, ((2, 3),))


def test_member_that_moves_within_its_host_counts_once() -> None:
    state = held(("a", "a", 2), ("a", "migration", 2)).added_to(STATE)
    assert (state.members_by_host, state.migrating) == ({1: 1, 2: 1}, ())


def test_member_does_not_count_against_itself() -> None:
    found = held(("a", "a", 3), ("a", "migration", 2), ("b", "b", 4))
    view = found.view_for(STATE, "a", found.hosts_of("a"), NONE_VACATED)
    assert (view.members_by_host, view.migrating, view.source_host) == ({1: 1, 4: 1}, (), 2)


def test_host_of_a_member_is_its_own_before_that_of_its_migration() -> None:
    found = held(("a", "a", 3), ("a", "migration", 2), ("b", "migration-b", 4))
    assert found.host_by_member() == {"a": 3, "b": 4}
