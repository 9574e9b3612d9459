"""The Compute API's microversions: each constant is named for its change; the reference quotes the docstrings."""

from covey.api.versions import Version, VersionRange

FIRST = Version(2, 1)
"""The minimum, and the default of a request without a version."""

KEYPAIR_TYPE = Version(2, 2)
"""Key pairs have a `type`. Creating one is 201, deleting one 204."""

ADMIN_ATTRIBUTES = Version(2, 3)
"""Administrators see further attributes of a server: hostname, reservation id, launch index."""

LOCKED = Version(2, 9)
"""Servers show `locked`."""

KEYPAIR_USER = Version(2, 10)
"""Administrators manage the key pairs of another user by `user_id`."""

FORCED_DOWN = Version(2, 11)
"""Services show `forced_down`. `PUT /os-services/force-down` exists."""

OWNER_SHOWN = Version(2, 13)
"""Server groups show `project_id` and `user_id`."""

EVACUATE_NO_SHARED = Version(2, 14)
"""`evacuate` takes no `onSharedStorage`."""

SOFT_POLICIES = Version(2, 15)
"""Server groups may have the policies `soft-anti-affinity` and `soft-affinity`."""

HOST_STATUS = Version(2, 16)
"""Administrators see `host_status` of a server."""

DESCRIPTION = Version(2, 19)
"""Servers have a `description`."""

DELETED_ACTIONS = Version(2, 21)
"""The instance actions of a deleted server are shown."""

MIGRATION_TYPES = Version(2, 23)
"""Migrations show `migration_type`."""

ABORT_LIVE_MIGRATION = Version(2, 24)
"""`DELETE /servers/{id}/migrations/{id}` ends a live migration."""

LIVE_BLOCK_AUTO = Version(2, 25)
"""`os-migrateLive` takes `block_migration: auto`, and no `disk_over_commit`."""

TAGS = Version(2, 26)
"""Servers have tags."""

CPU_INFO_AS_OBJECT = Version(2, 28)
"""`cpu_info` of a hypervisor is an object, no longer a string of JSON."""

EVACUATE_FORCE = Version(2, 29)
"""`evacuate` takes `force`."""

LIVE_FORCE = Version(2, 30)
"""`os-migrateLive` takes `force`."""

NETWORK_TAGS = Version(2, 32)
"""A network has a `tag` when a server is created."""

HYPERVISOR_PAGING = Version(2, 33)
"""Hypervisors are paginated: `limit`, `marker`, `hypervisors_links`."""

KEYPAIR_PAGING = Version(2, 35)
"""Key pairs are paginated: `limit`, `marker`, `keypairs_links`."""

NETWORK_QUOTAS_GONE = Version(2, 36)
"""Quota sets and limits no longer show floating ips, fixed ips, security groups and their rules."""

NETWORKS_REQUIRED = Version(2, 37)
"""`networks` is required to create a server, and may be `none` or `auto`."""

IMAGE_METADATA_LIMIT_GONE = Version(2, 39)
"""Limits no longer show `maxImageMeta`."""

AGGREGATE_UUID = Version(2, 41)
"""Aggregates show their `uuid`."""

FLAVOR_EMBEDDED = Version(2, 47)
"""A server embeds its flavor, no longer its id."""

CLASS_QUOTAS_FIXED = Version(2, 50)
"""Quota classes show `server_groups` and `server_group_members`, and no network quotas."""

TAGS_AT_CREATE = Version(2, 52)
"""`tags` when a server is created."""

UUIDS_FOR_HOSTS = Version(2, 53)
"""Hypervisors and services have a uuid as their id. `PUT /os-services/{uuid}` replaces the verbs in the path.
The parameters `hypervisor_hostname_pattern` and `with_servers` replace `/search` and `/servers`.
Unknown parameters of these routes are 400."""

FLAVOR_DESCRIPTION = Version(2, 55)
"""Flavors have a `description`; `PUT /flavors/{id}` changes it."""

COLD_MIGRATE_HOST = Version(2, 56)
"""`migrate` takes a `host`."""

PERSONALITY_GONE = Version(2, 57)
"""Quota sets, quota classes and limits no longer show injected files."""

ACTIONS_PAGED = Version(2, 58)
"""Instance actions show `updated_at`; `limit`, `marker` and `changes-since`, with `links`."""

MIGRATIONS_PAGED = Version(2, 59)
"""Migrations show their `uuid`; `limit`, `marker` and `changes-since`, with `migrations_links`."""

EXTRA_SPECS_IN_FLAVORS = Version(2, 61)
"""Flavors show their `extra_specs` to actors with access to them."""

TRUSTED_CERTIFICATES = Version(2, 63)
"""Servers show `trusted_image_certificates`, which is always null."""

POLICY_RULES = Version(2, 64)
"""A server group has one `policy` and `rules`, no longer `policies` and `metadata`."""

CHANGES_BEFORE = Version(2, 66)
"""`changes-before` of instance actions and migrations."""

NO_FORCE = Version(2, 68)
"""`os-migrateLive` and `evacuate` take no `force`."""

SERVER_GROUPS_SHOWN = Version(2, 71)
"""A server shows `server_groups`."""

LOCKED_REASON = Version(2, 73)
"""`lock` takes a reason, and servers show it."""

REQUESTED_HOST = Version(2, 74)
"""`host` and `hypervisor_hostname` when a server is created; the host must pass all constraints."""

STRICT_LISTS = Version(2, 75)
"""Unknown query parameters of flavors, services, quotas, limits and key pairs are 400. A flavor without
swap has `"swap": 0`, no longer `""`. `with_servers` shows `"servers": []` for a hypervisor without servers."""

UNSHELVE_ZONE = Version(2, 77)
"""`unshelve` takes an `availability_zone`."""

MIGRATION_OWNERS = Version(2, 80)
"""Migrations show `project_id` and `user_id`."""

IMAGE_CACHE = Version(2, 81)
"""`POST /os-aggregates/{id}/images` exists."""

EVENT_DETAILS = Version(2, 84)
"""Events of instance actions show `details`: the counted reasons of a refused move."""

CHECKED_EXTRA_SPECS = Version(2, 86)
"""The values of the extra specs `trait:NAME`, `resources:CLASS` and `group_policy` are validated."""

HYPERVISOR_USAGE_GONE = Version(2, 88)
"""Hypervisors show `uptime` instead of capacity and usage. `/os-hypervisors/statistics` and
`/os-hypervisors/{id}/uptime` no longer exist."""

HOSTNAME = Version(2, 90)
"""`hostname` when a server is created or updated."""

UNSHELVE_HOST = Version(2, 91)
"""`unshelve` takes a `host`."""

KEYPAIR_IMPORT_ONLY = Version(2, 92)
"""A key pair needs a `public_key`, since none is generated; names may contain `@` and `.`."""

PINNED_ZONE = Version(2, 96)
"""Servers show `pinned_availability_zone`."""

IMAGE_PROPERTIES_SHOWN = Version(2, 98)
"""The image of a server has `properties`."""

HINTS_SHOWN = Version(2, 100)
"""Servers show `scheduler_hints`."""

STRICT_SHOWS = Version(2, 102)
"""Flavors no longer have `rxtx_factor` and `OS-FLV-DISABLED:disabled`. Unknown query parameters are 400 on the routes
that take none."""

PINNED_ZONE_UPDATED = Version(2, 104)
"""`PUT /servers/{id}` takes `pinned_availability_zone`: null, or the zone that the server is in."""

COVEY = Version(2, 1000)
"""Covey's own version, and the maximum. Server groups have several policies with rules; they can be changed, audited,
previewed and rebalanced. Quotas may limit resource classes (`class:CUSTOM_GPU`). `GET /servers/{id}/placement`,
`POST /os-placement-explain`, `/os-policy-scopes` and `/os-drains` exist."""

VERSIONS = VersionRange("compute", FIRST, COVEY, legacy_header="X-OpenStack-Nova-API-Version", alias="covey")
