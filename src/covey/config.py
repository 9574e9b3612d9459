"""Every option, with the help text that the reference shows. From a file, the environment, or the command line."""

from collections.abc import Sequence

from oslo_config import cfg
from oslo_policy import opts as policy_options

from covey.model.quotas import DEFAULTS

API = cfg.OptGroup("api", title="The HTTP service")
DATABASE = cfg.OptGroup("database", title="Where state lives")
SCHEDULER = cfg.OptGroup("scheduler", title="Choosing hosts")
QUOTA = cfg.OptGroup("quota", title="What a project gets unless an operator says otherwise")
CLUSTERING = cfg.OptGroup("clustering", title="Clusters of servers")
WORKER = cfg.OptGroup("worker", title="Doing what was decided")
DRIVER = cfg.OptGroup("driver", title="The backend that runs servers")
NOTIFICATIONS = cfg.OptGroup("notifications", title="Telling others what happened")
DASHBOARD = cfg.OptGroup("dashboard", title="The web page")
CORS = cfg.OptGroup("cors", title="Web pages of other origins that may ask (oslo.middleware)")
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
        cfg.IntOpt("threads", default=64, min=1, max=256, help="How many requests each process handles at once."),
        cfg.IntOpt(
            "request_slots",
            default=2,
            min=1,
            max=256,
            help="How many of them run at once, while the others wait for a commit or for Keystone. More than a few "
            "get into each other's way.",
        ),
        cfg.BoolOpt(
            "cpu_pinning",
            default=True,
            help="Whether each process stays on the processor where the system put it. It runs Python on one at a time "
            "anyway, and handing over between several costs it a fifth of its speed. Linux only.",
        ),
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
            "explain_to_tenants",
            default="counts",
            choices=[
                ("counts", "counted reasons, such as: of 24 hosts: 12 lack memory, 3 are disabled"),
                ("reasons", "the same without numbers, for operators who keep the size of the fleet to themselves"),
                ("none", "that there was no host, and nothing more"),
            ],
            help="How much a tenant is told when no host may take its server. It never includes a host's name.",
        ),
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
        cfg.IntOpt(
            "pool_size",
            default=0,
            min=0,
            help="How many connections each process keeps at the most. 0: two for each lane, and a few.",
        ),
    ],
    SCHEDULER: [
        cfg.StrOpt(
            "default_availability_zone",
            default="nova",
            help="The zone of hosts that no aggregate gives one.",
        ),
        cfg.FloatOpt("cpu_weight_multiplier", default=1.0, help="How much free VCPUs speak for a host."),
        cfg.FloatOpt("ram_weight_multiplier", default=1.0, help="The same, for free memory; below 0 it packs."),
        cfg.FloatOpt("disk_weight_multiplier", default=1.0, help="The same, for free disk."),
        cfg.IntOpt(
            "host_subset_size",
            default=1,
            min=1,
            help="Of how many of the best hosts one is drawn by lot. 1 takes the best.",
        ),
        cfg.IntOpt(
            "max_attempts",
            default=3,
            min=1,
            help="On how many hosts a server is tried that fails to start, before it is in error.",
        ),
        cfg.FloatOpt(
            "rebalance_patience_s",
            default=10.0,
            min=0.1,
            help="For how many seconds the best way to rebalance a server group is looked for; then the best one that "
            "was found has to do.",
        ),
        cfg.BoolOpt(
            "enable_forbidden_aggregates_filter",
            default=False,
            deprecated_name="enable_isolated_aggregate_filtering",
            help="Keep the hosts of an aggregate with `trait:NAME=required` metadata for servers whose flavor and "
            "image together require every such trait.",
        ),
        cfg.FloatOpt("cpu_allocation_ratio", default=4.0, min=0.01, help="VCPUs sold for each that a new host has."),
        cfg.FloatOpt("ram_allocation_ratio", default=1.0, min=0.01, help="The same, for memory."),
        cfg.FloatOpt("disk_allocation_ratio", default=1.0, min=0.01, help="The same, for disk."),
    ],
    WORKER: [
        cfg.IntOpt(
            "threads",
            default=1,
            min=0,
            help="How many threads of each serving process carry out what was decided. 0: `covey worker` does.",
        ),
        cfg.FloatOpt(
            "lease_s",
            default=30.0,
            min=1,
            help="After so many seconds another worker takes on a job that was not finished; more than any step takes.",
        ),
        cfg.FloatOpt("idle_s", default=0.2, min=0.01, help="How long a worker with nothing to do waits to look again."),
    ],
    DRIVER: [
        cfg.FloatOpt("latency_s", default=0.0, min=0, help="How long the simulated backend takes for each step."),
        cfg.FloatOpt(
            "failure_rate", default=0.0, min=0, max=1, help="How often one of its steps fails: 0.1 is one in ten."
        ),
        cfg.IntOpt("seed", help="Makes its failures the same each time."),
    ],
    NOTIFICATIONS: [
        cfg.StrOpt(
            "driver",
            default="noop",
            choices=[
                ("noop", "nobody is told"),
                ("log", "into the log"),
                ("messagingv2", "a broker, through oslo.messaging; transport_url says which"),
            ],
            help="Who is told of what happens to groups and servers.",
        ),
    ],
    QUOTA: [
        cfg.IntOpt(name, default=limit, min=-1, help=f"Default quota of {name.replace('_', ' ')}; -1 is unlimited.")
        for name, limit in DEFAULTS.items()
    ],
    CLUSTERING: [
        cfg.IntOpt("max_clusters_per_project", default=100, min=0, help="How many clusters a project may have."),
        cfg.IntOpt("max_nodes_per_cluster", default=1000, min=1, help="How many nodes a cluster may have."),
        cfg.IntOpt(
            "default_action_timeout",
            default=3600,
            min=1,
            help="After how many seconds an action on a cluster or a node is given up. A cluster can have its own.",
        ),
    ],
    DASHBOARD: [
        cfg.BoolOpt("enabled", default=True, help="Serve the page at /dashboard/, beside all APIs."),
        cfg.IntOpt(
            "max_streams",
            default=16,
            min=0,
            help="How many pages of each process are told at once what changes. Each keeps one of [api] threads, of "
            "which half are for requests in any case; further pages ask every few seconds instead.",
        ),
    ],
    CORS: [
        cfg.ListOpt("allowed_origin", help="Origins such as https://cloud.example. Unset: no CORS headers."),
        cfg.BoolOpt("allow_credentials", default=True, help="Whether a page may send credentials."),
        cfg.ListOpt("expose_headers", help="Headers of answers that a page may read, besides simple ones."),
        cfg.IntOpt("max_age", default=3600, min=0, help="For how many seconds a browser remembers what it may do."),
        cfg.ListOpt(
            "allow_methods", default=["GET", "POST", "PUT", "PATCH", "DELETE"], help="Methods that a page may use."
        ),
        cfg.ListOpt("allow_headers", help="Headers that a page may send, besides simple ones."),
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
        conf.register_group(cfg.OptGroup(group.name, title=group.title))  # its own: a group keeps what was overridden
        conf.register_opts(options, group.name)
    policy_options.set_defaults(conf)
    conf(args=[], project="covey", default_config_files=list(files) or None)
    return conf


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """The same options, for `covey config sample`."""
    return [(group.name, options) for group, options in OPTIONS.items()]
