"""The options of the group [covey] in nova.conf."""

from typing import Any

from keystoneauth1 import loading
from nova import conf
from oslo_config import cfg

CONF = conf.CONF
GROUP = "covey"
FALLBACK_GROUP = "placement"
TIMEOUT_S = 5
_RETRIES = (
    "connect_retries",
    "connect_retry_delay",
    "status_code_retries",
    "status_code_retry_delay",
    "retriable_status_codes",
)

OPTIONS = [
    cfg.StrOpt(
        "on_unavailable",
        default="refuse",
        choices=[
            ("refuse", "no host admits an instance of a server group"),
            ("ignore", "Nova decides alone; Covey still refuses allocations that violate a hard policy it knows of"),
        ],
        help="What the filter does when Covey does not answer within the time limit.",
    ),
    cfg.FloatOpt(
        "weight_multiplier",
        default=1_000_000.0,
        help="Weight of Covey's ranking by soft policies. The default ranks by it before all other weighers.",
    ),
]


def register() -> None:
    """Register the options: these, and those of a keystoneauth session, its authentication and its endpoint."""
    CONF.register_opts(OPTIONS, GROUP)
    loading.register_session_conf_options(CONF, GROUP)
    loading.register_auth_conf_options(CONF, GROUP)
    loading.register_adapter_conf_options(CONF, GROUP)
    CONF.set_default("timeout", TIMEOUT_S, GROUP)
    CONF.set_default("service_type", "placement", GROUP)


def credentials_group() -> str:
    """Return the group with endpoint and credentials: [placement], unless [covey] has its own."""
    return GROUP if CONF[GROUP].auth_type else FALLBACK_GROUP


def retries() -> dict[str, Any]:
    """Return the retries that [covey] sets. Others are those of the group with the endpoint; 0 by default."""
    chosen = {name: CONF[GROUP][name] for name in _RETRIES}
    return {name: value for name, value in chosen.items() if value is not None}
