"""The Compute API's versions, each constant named for what it changed."""

from covey.api.versions import Spoken, Version

FIRST = Version(2, 1)
FORCED_DOWN = Version(2, 11)
CPU_INFO_AS_OBJECT = Version(2, 28)
HYPERVISOR_PAGING = Version(2, 33)
NETWORK_QUOTAS_GONE = Version(2, 36)
IMAGE_METADATA_LIMIT_GONE = Version(2, 39)
AGGREGATE_UUID = Version(2, 41)
CLASS_QUOTAS_FIXED = Version(2, 50)
UUIDS_FOR_HOSTS = Version(2, 53)
FLAVOR_DESCRIPTION = Version(2, 55)
PERSONALITY_GONE = Version(2, 57)
EXTRA_SPECS_IN_FLAVORS = Version(2, 61)
STRICT_LISTS = Version(2, 75)
IMAGE_CACHE = Version(2, 81)
CHECKED_EXTRA_SPECS = Version(2, 86)
HYPERVISOR_USE_GONE = Version(2, 88)
STRICT_SHOWS = Version(2, 102)
COVEY = Version(2, 1000)

SPOKEN = Spoken("compute", FIRST, COVEY, legacy_header="X-OpenStack-Nova-API-Version")
