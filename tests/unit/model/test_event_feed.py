"""Events from two sets of change markers."""

from covey.model.event_feed import ChangeMarker, FeedEvent, Subject, feed_events
from covey.model.ids import ProjectId

WEB, DB = ProjectId("web"), ProjectId("db")


def a_marker(
    mark: str, thing: str | None = "s", project: ProjectId | None = WEB, *, lasting: bool = False
) -> ChangeMarker:
    return ChangeMarker(Subject.SERVERS, project, thing, mark, lasting)


def test_equal_markers_give_no_events() -> None:
    assert feed_events([a_marker("1")], [a_marker("1")]) == []


def test_expired_marker_gives_no_event() -> None:
    assert feed_events([a_marker("1", "old", DB)], [a_marker("2", "new")]) == [
        FeedEvent(Subject.SERVERS, WEB, ("new",))
    ]


def test_removed_lasting_marker_gives_an_event() -> None:
    assert feed_events([a_marker("1", lasting=True)], []) == [FeedEvent(Subject.SERVERS, WEB, ("s",))]


def test_each_project_gets_one_event_for_a_subject() -> None:
    now = [a_marker("1", "b"), a_marker("2", "a"), a_marker("3", "c", DB), a_marker("4", None)]
    assert sorted(feed_events([], now), key=str) == [
        FeedEvent(Subject.SERVERS, DB, ("c",)),
        FeedEvent(Subject.SERVERS, WEB, ("a", "b")),
    ]
