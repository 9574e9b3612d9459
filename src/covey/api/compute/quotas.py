"""/os-quota-sets, /os-quota-class-sets, /limits: quotas and usage of projects."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.microversions import (
    COVEY,
    IMAGE_METADATA_LIMIT_GONE,
    NETWORK_QUOTAS_GONE,
    PERSONALITY_GONE,
)
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import is_true
from covey.api.versions import Version, Versioned
from covey.model.errors import Invalid
from covey.model.ids import ProjectId
from covey.model.quotas import CLASS
from covey.services.quotas import Quota
from covey.services.quotas import Quotas as Service

_MAX_LENGTH = 255


@dataclass(frozen=True, slots=True)
class QuotaSets:
    """A project's quota."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.QUOTA_QUERY)
        quotas = self.service.of_project(req.actor, ProjectId(key))
        resp.media = {"quota_set": {"id": key, **_limits(quotas, req.version)}}

    def on_get_detail(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.QUOTA_QUERY)
        quotas = self.service.of_project(req.actor, ProjectId(key), "detail")
        shown = {
            resource: {"limit": quotas[resource].limit, "in_use": quotas[resource].used, "reserved": 0}
            for resource in _shown(schemas.QUOTA_RESOURCES, quotas, req.version)
        }
        resp.media = {"quota_set": {"id": key, **shown}}

    def on_get_defaults(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        defaults = self.service.default(req.actor)
        shown = {resource: defaults[resource] for resource in _shown(schemas.QUOTA_RESOURCES, defaults, req.version)}
        resp.media = {"quota_set": {"id": key, **shown}}

    def on_put(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, schemas.QUOTA_UPDATE.at(req.version))["quota_set"]
        read_query(req, schemas.QUOTA_QUERY)
        _reject_long("project_id", key)
        force = is_true(body.pop("force", False))
        limits = {resource: int(limit) for resource, limit in body.items()}
        changed = self.service.update(req.actor, ProjectId(key), limits, force=force)
        resp.media = {"quota_set": _limits(changed, req.version)}

    def on_delete(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.QUOTA_QUERY)
        self.service.reset(req.actor, ProjectId(key))
        resp.status = falcon.HTTP_202


@dataclass(frozen=True, slots=True)
class QuotaClassSets:
    """The default quota of all projects."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        limits = self.service.of_class(req.actor, key)
        resp.media = {"quota_class_set": {"id": key, **_class(limits, req.version)}}

    def on_put(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, schemas.CLASS_QUOTA_UPDATE.at(req.version))["quota_class_set"]
        _reject_long("quota_class_name", key)
        limits = {resource: int(limit) for resource, limit in body.items()}
        changed = self.service.update_class(req.actor, key, limits)
        resp.media = {"quota_class_set": _class(changed, req.version)}


@dataclass(frozen=True, slots=True)
class Limits:
    """The quota and usage of the caller's project, as `absolute` limits."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        other = read_query(req, schemas.LIMITS_QUERY).get("tenant_id")
        quotas = self.service.limits(req.actor, None if other is None else ProjectId(other))
        resp.media = {"limits": {"rate": [], "absolute": _absolute(quotas, req.version)}}


_NETWORK = {
    "maxTotalFloatingIps": "floating_ips",
    "maxSecurityGroups": "security_groups",
    "maxSecurityGroupRules": "security_group_rules",
}
_PERSONALITY = {"maxPersonality": "injected_files", "maxPersonalitySize": "injected_file_content_bytes"}
LIMITS = {
    "maxServerMeta": "metadata_items",
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}
USED = {
    "totalInstancesUsed": "instances",
    "totalCoresUsed": "cores",
    "totalRAMUsed": "ram",
    "totalServerGroupsUsed": "server_groups",
}
_NETWORK_USED = {"totalFloatingIpsUsed": "floating_ips", "totalSecurityGroupsUsed": "security_groups"}


def _absolute(quotas: Mapping[str, Quota], version: Version) -> Json:
    limits, used = dict(LIMITS), dict(USED)
    if version < IMAGE_METADATA_LIMIT_GONE:
        limits["maxImageMeta"] = "metadata_items"
    if version < PERSONALITY_GONE:
        limits |= _PERSONALITY
    if version < NETWORK_QUOTAS_GONE:
        limits, used = limits | _NETWORK, used | _NETWORK_USED
    return {name: quotas[r].limit for name, r in limits.items()} | {name: quotas[r].used for name, r in used.items()}


def _reject_long(name: str, text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise Invalid(f"{name} has {len(text)} characters, more than {_MAX_LENGTH}.")


def _limits(quotas: Mapping[str, Quota], version: Version) -> Json:
    return {resource: quotas[resource].limit for resource in _shown(schemas.QUOTA_RESOURCES, quotas, version)}


def _class(limits: Mapping[str, int], version: Version) -> Json:
    return {resource: limits[resource] for resource in _shown(schemas.CLASS_QUOTA_RESOURCES, limits, version)}


def _shown(resources: Versioned[tuple[str, ...]], quotas: Iterable[str], version: Version) -> list[str]:
    """Return the quotas that the version shows: those of resource classes at Covey's own version, where one is set."""
    classes = sorted(name for name in quotas if name.startswith(CLASS)) if version >= COVEY else []
    return [*resources.at(version), *classes]
