"""Every option, with the help text that the reference shows. From a file, the environment, or the command line."""

from collections.abc import Sequence

from oslo_config import cfg
from oslo_policy import opts as policy_options

from covey.model.quotas import DEFAULTS

API = cfg.OptGroup("api", title="The HTTP service")
DATABASE = cfg.OptGroup("database", title="Where state lives")
SCHEDULER = cfg.OptGroup("scheduler", title="Choosing hosts")
QUOTA = cfg.OptGroup("quota", title="What a project gets unless an operator says otherwise")
LOG = cfg.OptGroup("log", title="What is logged, and how")

OPTIONS: dict[cfg.OptGroup, list[cfg.Opt]] = {
    API: [
        cfg.HostAddressOpt("host", default="127.0.0.1", help="The address to listen on."),
        cfg.PortOpt("port", default=8774, help="The port to listen on."),
        cfg.IntOpt(
            "workers",
            default=1,
            min=1,
            help="How many processes serve requests. SQLite is fastest with one.",
        ),
        cfg.IntOpt("threads", default=16, min=1, max=256, help="How many requests each process handles at once."),
        cfg.StrOpt(
            "auth_strategy",
            default="basic",
            choices=[
                ("basic", "HTTP Basic, against users_file; for one machine or a lab"),
                ("keystone", "tokens of a real Keystone; its options are in [keystone_authtoken]"),
                ("none", "everybody is who they say they are; for tests, on loopback only"),
            ],
            help="How callers prove who they are.",
        ),
        cfg.StrOpt(
            "users_file",
            default="users.yaml",
            help="For auth_strategy=basic: the YAML file of users, each with name, password_hash (bcrypt), "
            "project and roles. It is read again when it changes.",
        ),
        cfg.IntOpt(
            "basic_remember_s",
            default=60,
            min=0,
            help="For how many seconds a verified password is remembered, since bcrypt is slow on purpose.",
        ),
        cfg.IntOpt("max_limit", default=1000, min=1, help="The most items that one page of a listing holds."),
        cfg.IntOpt("max_body_bytes", default=114688, min=1024, help="The largest JSON body that is read; more is 413."),
        cfg.StrOpt(
            "public_url",
            help="How clients reach the service, such as https://cloud.example:8774, for the links in answers. "
            "Unset: as the request says.",
        ),
    ],
    DATABASE: [
        cfg.StrOpt(
            "connection",
            default="sqlite:///covey.sqlite",
            secret=True,
            help="The database: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME.",
        ),
        cfg.IntOpt("pool_size", default=16, min=1, help="How many connections each process keeps at the most."),
    ],
    SCHEDULER: [
        cfg.StrOpt(
            "default_availability_zone",
            default="nova",
            help="The zone of hosts that no aggregate gives one.",
        ),
        cfg.FloatOpt("cpu_allocation_ratio", default=4.0, min=0.01, help="VCPUs sold for each that a new host has."),
        cfg.FloatOpt("ram_allocation_ratio", default=1.0, min=0.01, help="The same, for memory."),
        cfg.FloatOpt("disk_allocation_ratio", default=1.0, min=0.01, help="The same, for disk."),
    ],
    QUOTA: [
        cfg.IntOpt(name, default=limit, min=-1, help=f"Default quota of {name.replace('_', ' ')}; -1 is unlimited.")
        for name, limit in DEFAULTS.items()
    ],
    LOG: [
        cfg.StrOpt("level", default="info", choices=["debug", "info", "warning", "error"], help="The least to log."),
        cfg.StrOpt(
            "format",
            default="json",
            choices=["json", "console"],
            help="One JSON object a line, for programs; or coloured text, for people.",
        ),
    ],
}


def load(files: Sequence[str] = ()) -> cfg.ConfigOpts:
    """All options, from these files (or the usual places, if none are given) and the environment."""
    conf = cfg.ConfigOpts()
    for group, options in OPTIONS.items():
        conf.register_group(group)
        conf.register_opts(options, group)
    policy_options.set_defaults(conf)
    conf(args=[], project="covey", default_config_files=list(files) or None)
    return conf


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """The same options, for `covey config sample`."""
    return [(group.name, options) for group, options in OPTIONS.items()]
