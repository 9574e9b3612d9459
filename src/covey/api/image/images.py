"""/v2/images: image records and their data."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlencode

import falcon

from covey.api.downloads import DATA_TYPE, Downloads
from covey.api.image import patches, schemas
from covey.api.requests import (
    Json,
    Request,
    UnsupportedMedia,
    body_stream,
    limited,
    parse_json,
    query_lists,
    read_body,
    read_bytes,
)
from covey.api.times import seconds
from covey.model.access import OPERATORS
from covey.model.errors import Forbidden, Invalid, NotFound
from covey.model.ids import ImageId, ProjectId
from covey.model.images import Image, ImageFilter, Visibility
from covey.ports import Clock, NewUuid
from covey.services.images import Images as Service

PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
_MAX_LISTED = 1000  # values of an `in:` filter
_DEFAULT_PAGE = 25
CHUNK_BYTES = 64 << 10  # arrives over the slowest line before the lease of an upload ends
_SIZE_HEADER = "X-OpenStack-Image-Size"
_MAX_DIGITS = 30


@dataclass(frozen=True, slots=True)
class Images:
    """Image records, their tags and their data."""

    service: Service
    clock: Clock
    new_uuid: NewUuid
    max_limit: int
    downloads: Downloads

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        parameters = query_lists(req)
        query = schemas.LIST.check(parameters, schemas.ANY_VERSION)
        properties = {name: values[-1] for name, values in parameters.items() if name not in schemas.LIST.known}
        limited("of image properties", properties)
        limit = min(int(query.get("limit", _DEFAULT_PAGE)), self.max_limit)
        images = self.service.find(req.actor, _filter(query, parameters, properties, limit + 1))
        resp.media = {"images": [show(image) for image in images[:limit]], "schema": "/v2/schemas/images"}
        resp.media["first"] = _page({k: v for k, v in {**query, **properties}.items() if k != "marker"})
        if len(images) > limit > 0:
            resp.media["next"] = _page({**query, **properties, "marker": images[limit - 1].id})

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, schemas.CREATE)
        _reject_read_only(body)
        now = self.clock()
        blank = Image(
            id=ImageId(body.pop("id", None) or self.new_uuid()),
            name=None,
            owner=ProjectId(body.pop("owner", None) or req.actor.project_id or OPERATORS),
            created_at=now,
            updated_at=now,
        )
        created = self.service.create(req.actor, patches.with_fields(blank, body))
        resp.status, resp.media = falcon.HTTP_201, show(created)
        resp.location = req.link(f"/v2/images/{created.id}")

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        resp.media = show(self.service.get(req.actor, key))

    def on_patch_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        if (req.content_type or "").partition(";")[0].strip() != PATCH_TYPE:
            raise UnsupportedMedia(f"Unsupported Content-Type: send {PATCH_TYPE}.")
        patch = parse_json(read_bytes(req))
        schemas.PATCH.check(patch)
        changes = [patches.change(entry) for entry in patch]
        resp.media = show(self.service.change(req.actor, key, lambda image: patches.applied(changes, image)))

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_204

    def on_put_file(self, req: Request, resp: falcon.Response, key: str) -> None:
        if (req.content_type or DATA_TYPE).partition(";")[0].strip() != DATA_TYPE:
            raise UnsupportedMedia(f"Unsupported Content-Type: send {DATA_TYPE}.")
        size = _size(req)
        with closing(_chunks(req, size)) as chunks:  # else it ends with the frames of an exception
            self.service.upload(req.actor, key, chunks, size)
        resp.status = falcon.HTTP_204

    def on_get_file(self, req: Request, resp: falcon.Response, key: str) -> None:
        image, data = self.service.download(req.actor, key)
        if data is None:
            resp.status = falcon.HTTP_204
            return
        self.downloads.send(req, resp, data)
        resp.set_header("Content-MD5", image.md5 or "")

    def on_put_tag(self, req: Request, resp: falcon.Response, key: str, tag: str) -> None:
        self.service.change(req.actor, key, lambda image: patches.with_fields(image, {"tags": image.tags | {tag}}))
        resp.status = falcon.HTTP_204

    def on_delete_tag(self, req: Request, resp: falcon.Response, key: str, tag: str) -> None:
        def untag(image: Image) -> Image:
            if tag not in image.tags:
                raise NotFound(f"Image {image.id} has no tag {tag}.")
            return patches.with_fields(image, {"tags": image.tags - {tag}})

        self.service.change(req.actor, key, untag)
        resp.status = falcon.HTTP_204


def _size(req: Request) -> int | None:
    """Return the announced size of the data. Raises Invalid.

    Clients that send pieces without a Content-Length announce it in a header of Glance's.
    """
    text = req.get_header(_SIZE_HEADER)
    if text is None:
        return req.content_length
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise Invalid(f"{_SIZE_HEADER} is no number of bytes.")
    size = int(text)
    if req.content_length not in {None, size}:
        raise Invalid(f"{_SIZE_HEADER} is {size}, and Content-Length is {req.content_length}.")
    return size


def _chunks(req: Request, size: int | None) -> Generator[bytes]:
    """Yield the body as it arrives, a piece at a time in memory. Raises Invalid if it has not the announced size."""
    arrived = 0
    with req.context.bodies.reading(req.context.actor):
        stream = body_stream(req)
        while chunk := stream.read(CHUNK_BYTES):
            arrived += len(chunk)
            if size is not None and arrived > size:
                break
            yield chunk
    if size is not None and arrived != size:
        raise Invalid(f"The request body has {'more' if arrived > size else 'less'} than the {size} bytes announced.")


def show(image: Image) -> Json:
    """Return an image; its properties are on the level of its fields."""
    return {
        **image.properties,
        "id": image.id,
        "name": image.name,
        "status": image.status,
        "visibility": image.visibility,
        "owner": image.owner or None,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "min_disk": image.min_disk_gb,
        "min_ram": image.min_ram_mb,
        "size": image.size_bytes,
        "virtual_size": None,
        "checksum": image.md5,
        "os_hash_algo": None if image.sha512 is None else "sha512",
        "os_hash_value": image.sha512,
        "protected": image.protected,
        "os_hidden": image.hidden,
        "tags": sorted(image.tags),
        "created_at": seconds(image.created_at),
        "updated_at": seconds(image.updated_at),
        "self": f"/v2/images/{image.id}",
        "file": f"/v2/images/{image.id}/file",
        "schema": "/v2/schemas/image",
    }


def _filter(
    query: Mapping[str, str], parameters: Mapping[str, list[str]], properties: Mapping[str, str], limit: int
) -> ImageFilter:
    sort, _, direction = query.get("sort", f"{query.get('sort_key', 'created_at')}:").partition(":")
    visibility = query.get("visibility", "all")
    return ImageFilter(
        ids=_one_of(query, "id"),
        names=_one_of(query, "name"),
        statuses=_one_of(query, "status"),
        owner=query.get("owner"),
        visibility=None if visibility == "all" else Visibility(visibility),
        hidden=query.get("os_hidden", "false").lower() == "true",
        tags=limited("tag", parameters.get("tag", ())),
        properties=properties,
        after=ImageId(query["marker"]) if "marker" in query else None,
        limit=limit,
        sort_key=sort,
        descending=(direction or query.get("sort_dir", "desc")) == "desc",
    )


def _one_of(query: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Return the values of `in:a,b`, or the text itself as the only value. Raises Invalid."""
    text = query.get(name)
    if text is None or not text.startswith("in:"):
        return None if text is None else (text,)
    return limited(name, text.removeprefix("in:").split(","), _MAX_LISTED)


def _page(query: Mapping[str, str]) -> str:
    return f"/v2/images?{urlencode(query)}" if query else "/v2/images"


def _reject_read_only(body: Json) -> None:
    for name in body:
        if name in schemas.READ_ONLY:
            raise Forbidden(f"Attribute '{name}' is read-only.")
