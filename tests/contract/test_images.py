"""The image catalogue: rows in, values out, the same on every database."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from covey.model.errors import Conflict
from covey.model.ids import ImageId, ProjectId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.storage import tables
from covey.storage.store import Store
from tests.build import LATER, NOW, an_image

WEB, DB = ProjectId("web"), ProjectId("db")


def numbered(number: int, name: str | None, **fields: Any) -> Image:
    return replace(an_image(id=ImageId(f"00000000-0000-0000-0000-{number:012}"), **fields), name=name)


def add(store: Store, *new: Image) -> None:
    with store.write() as tx:
        tx.images.add(new)


def found(store: Store, wanted: ImageFilter) -> list[int]:
    with store.read() as tx:
        return [int(image.id[-4:]) for image in tx.images.find(wanted)]


def test_stored_image_is_read_back_unchanged(store: Store) -> None:
    made = Image(
        id=ImageId("i1"),
        name=None,
        owner=WEB,
        created_at=NOW,
        updated_at=LATER,
        status=ImageStatus.ACTIVE,
        visibility=Visibility.COMMUNITY,
        disk_format="raw",
        container_format="bare",
        min_disk_gb=1,
        min_ram_mb=2,
        size_bytes=2**40,
        protected=True,
        hidden=True,
        tags=frozenset({"a", "b"}),
        properties={"x": "1", "y": ""},
    )
    add(store, made, an_image())
    add(store)
    with store.write() as tx:
        assert tx.images.by_id("i1") == tx.images.by_id("i1", lock=True) == made
        assert tx.images.by_id("i2") is tx.images.by_id("i2", lock=True) is None


def test_id_of_a_deleted_image_is_never_used_again(store: Store) -> None:
    """A server that was booted from it would boot the data of another project when it is evacuated."""
    image = an_image(owner=WEB)
    add(store, image)
    with store.write() as tx:
        tx.images.delete(image.id)
        tx.images.delete(image.id)
    with pytest.raises(Conflict, match=f"Image ID {image.id} already exists!"):
        add(store, replace(image, owner=DB))
    with store.read() as tx:
        assert tx.images.by_id(image.id) is None


def test_taken_id_is_a_conflict(store: Store) -> None:
    image = an_image(tags=frozenset({"t"}))
    add(store, image)
    with pytest.raises(Conflict, match=f"Image ID {image.id} already exists!"):
        add(store, replace(image, tags=frozenset()))


def test_update_stores_tags_and_properties(store: Store) -> None:
    image = an_image(tags=frozenset({"old", "kept"}), properties={"old": "1", "kept": "2"})
    wanted = replace(image, name=None, updated_at=LATER, tags=frozenset({"kept", "new"}), properties={"kept": "two"})
    add(store, image)
    with store.write() as tx:
        tx.images.update(wanted)
        assert tx.images.by_id(image.id) == wanted


def test_deleting_an_image_deletes_its_tags_and_properties(store: Store) -> None:
    image = an_image(tags=frozenset({"t"}), properties={"p": "1"})
    add(store, image)
    with store.write() as tx:
        tx.images.delete(image.id)
        assert tx.images.by_id(image.id) is None
        assert tx._connection.execute(sa.select(tables.image_tags)).all() == []
        assert tx._connection.execute(sa.select(tables.image_properties)).all() == []


def test_only_uploads_and_stored_data_count(store: Store) -> None:
    stored = numbered(1, "a", owner=WEB, size_bytes=5, sha512="x")
    queued, listed = numbered(2, "b", owner=WEB), numbered(3, "c", owner=WEB, size_bytes=9)
    add(store, stored, queued, listed, numbered(4, "d", owner=DB, size_bytes=7, sha512="x"))
    with store.write() as tx:
        assert tx.images.begin_upload(queued.id, "one", 60)
        assert tx.images.renew_upload(queued.id, "one", 60, 2**40)
        assert tx.images.data_bytes(WEB) == 5 + 2**40
        assert [tx.images.data_bytes_of(image.id) for image in (stored, queued, listed)] == [5, 2**40, 0]
        assert (tx.images.uploads(), tx.images.end_lost_uploads()) == ({"one"}, [])
        # The previous version of the service ends an upload without its reservation.
        tx._connection.execute(sa.update(tables.images).values(upload_id=None, upload_until=None))
        assert tx.images.data_bytes(WEB) == 5


CATALOGUE = [
    numbered(1, "linux", owner=WEB, visibility=Visibility.PRIVATE),
    numbered(2, "bsd", owner=DB, visibility=Visibility.PUBLIC, status=ImageStatus.ACTIVE),
    numbered(3, "linux", owner=DB, visibility=Visibility.COMMUNITY, tags=frozenset({"old", "slow"})),
    numbered(4, None, owner=DB, visibility=Visibility.SHARED, properties={"os": "linux", "bits": "64"}),
    numbered(5, "linux", owner=WEB, visibility=Visibility.PUBLIC, hidden=True),
    numbered(6, "beos", owner=WEB, tags=frozenset({"old"}), properties={"os": "beos", "bits": "64"}),
]
FILTERS = {
    "everything that is not hidden": (ImageFilter(), [1, 2, 3, 4, 6]),
    "what is hidden": (ImageFilter(hidden=True), [5]),
    "what a project sees: its own, and what is public": (ImageFilter(visible_to=WEB), [1, 2, 6]),
    "community images of all projects, on request": (
        ImageFilter(visible_to=WEB, visibility=Visibility.COMMUNITY),
        [3],
    ),
    "no other project's private images, even when asked for": (
        ImageFilter(visible_to=DB, visibility=Visibility.PRIVATE),
        [],
    ),
    "one visibility": (ImageFilter(visibility=Visibility.SHARED), [4, 6]),
    "some ids": (ImageFilter(ids=(CATALOGUE[0].id, CATALOGUE[4].id, "nope")), [1]),
    "no ids": (ImageFilter(ids=()), []),
    "some names": (ImageFilter(names=("linux", "beos")), [1, 3, 6]),
    "a name in its own case only": (ImageFilter(names=("Linux",)), []),
    "some statuses": (ImageFilter(statuses=("active", "saving")), [2]),
    "one owner": (ImageFilter(owner="db"), [2, 3, 4]),
    "one tag": (ImageFilter(tags=("old",)), [3, 6]),
    "both tags": (ImageFilter(tags=("old", "slow")), [3]),
    "a property": (ImageFilter(properties={"bits": "64"}), [4, 6]),
    "both properties": (ImageFilter(properties={"bits": "64", "os": "beos"}), [6]),
    "all of that at once": (ImageFilter(visible_to=WEB, names=("beos",), tags=("old",), owner="web"), [6]),
}


def test_filter_returns_only_matching_rows(store: Store, subtests: pytest.Subtests) -> None:
    add(store, *CATALOGUE)
    for claim, (wanted, numbers) in FILTERS.items():
        with subtests.test(claim):
            assert found(store, replace(wanted, sort_key="id", descending=False)) == numbers


ORDERS = {
    "created_at": [1, 2, 3, 4, 5, 6],
    "updated_at": [3, 4, 5, 6, 1, 2],
    "name": [4, 6, 2, 5, 1, 3],
    "status": [2, 1, 3, 4, 5, 6],
    "id": [1, 2, 3, 4, 5, 6],
}


def walk(store: Store, wanted: ImageFilter, page: int) -> list[int]:
    """Return the whole listing, page by page."""
    seen: list[int] = []
    while True:
        with store.read() as tx:
            images = tx.images.find(replace(wanted, limit=page))
        if not images:
            return seen
        seen += [int(image.id[-4:]) for image in images]
        wanted = replace(wanted, after=images[-1].id)


def test_pages_in_any_order_miss_no_image(store: Store, subtests: pytest.Subtests) -> None:
    """Several images have equal sort keys, and one has no name, which sorts as empty."""
    late = NOW + timedelta(seconds=1)
    images = [
        replace(i, hidden=False, updated_at=late if n in {1, 2} else NOW) for n, i in enumerate(CATALOGUE, start=1)
    ]
    images[4] = replace(images[4], name="hurd")
    add(store, *images)
    for key, numbers in ORDERS.items():
        for page in (1, 2, 4, 10):
            with subtests.test(f"by {key}, {page} at a time"):
                assert walk(store, ImageFilter(sort_key=key, descending=False), page) == numbers
                assert walk(store, ImageFilter(sort_key=key, descending=True), page) == numbers[::-1]


def test_page_applies_its_filter_for_any_marker(store: Store) -> None:
    add(store, *CATALOGUE)
    wanted = ImageFilter(names=("linux",), sort_key="id", descending=False)
    assert found(store, replace(wanted, after=CATALOGUE[1].id)) == [3]
    assert found(store, replace(wanted, after=ImageId("nope"))) == []
    assert found(store, replace(wanted, limit=0)) == []
