"""Every option with its help text. Values come from files and from the environment."""

from collections.abc import Sequence

from oslo_config import cfg
from oslo_policy import opts as policy_options

from covey.model.quotas import DEFAULTS

API = cfg.OptGroup("api", title="The HTTP service")
DATABASE = cfg.OptGroup("database", title="Database connection")
SCHEDULER = cfg.OptGroup("scheduler", title="Host selection")
QUOTA = cfg.OptGroup("quota", title="Default quotas of a project")
CLUSTERING = cfg.OptGroup("clustering", title="Clusters of servers")
WORKER = cfg.OptGroup("worker", title="Background jobs")
DRIVER = cfg.OptGroup("driver", title="The simulated virtualization backend")
NOTIFICATIONS = cfg.OptGroup("notifications", title="Outgoing notifications")
DASHBOARD = cfg.OptGroup("dashboard", title="The web dashboard")
CORS = cfg.OptGroup("cors", title="Cross-origin resource sharing")
LOG = cfg.OptGroup("log", title="Logging")

OPTIONS: dict[cfg.OptGroup, list[cfg.Opt]] = {
    API: [
        cfg.HostAddressOpt("host", default="127.0.0.1", help="Address to listen on."),
        cfg.PortOpt("port", default=8774, help="Port to listen on."),
        cfg.IntOpt(
            "workers",
            default=1,
            min=1,
            help="Serving processes. SQLite is fastest with one.",
        ),
        cfg.IntOpt("threads", default=64, min=1, max=256, help="Threads of each serving process."),
        cfg.IntOpt(
            "request_slots",
            default=2,
            min=1,
            max=256,
            help="Threads of a process that run Python at once. The others wait for a commit, for Keystone or for a "
            "slot. Large values lower the throughput.",
        ),
        cfg.BoolOpt(
            "cpu_pinning",
            default=True,
            help="Pin each serving process to one CPU. Linux only. A process runs Python on one CPU at a time, and "
            "migration between CPUs costs about a fifth of its throughput.",
        ),
        cfg.StrOpt(
            "auth_strategy",
            default="basic",
            choices=[
                ("basic", "HTTP Basic against users_file; for one machine or a lab"),
                ("keystone", "Keystone tokens; configured in [keystone_authtoken]"),
                ("none", "disables authentication; for tests, on loopback only"),
            ],
            help="Authentication method.",
        ),
        cfg.StrOpt(
            "users_file",
            default="users.yaml",
            help="YAML file of users for auth_strategy=basic, each with name, password_hash (bcrypt), project and "
            "roles. Reloaded when it changes.",
        ),
        cfg.IntOpt(
            "password_cache_s",
            default=60,
            min=0,
            help="Seconds to cache a verified password for auth_strategy=basic. 0 checks bcrypt on every request.",
        ),
        cfg.IntOpt("max_limit", default=1000, min=1, help="Maximum page size of a list."),
        cfg.IntOpt(
            "max_body_bytes", default=114688, min=1024, help="Maximum size of a JSON body; a larger one is 413."
        ),
        cfg.HostAddressOpt("metrics_host", default="127.0.0.1", help="Address of metrics_port."),
        cfg.PortOpt(
            "metrics_port",
            default=0,
            help="Port that serves the metrics alone, for Prometheus. 0 serves them at /metrics of the API's port, "
            "to every caller.",
        ),
        cfg.StrOpt(
            "explain_to_tenants",
            default="counts",
            choices=[
                ("counts", "counted reasons, such as: of 24 hosts: 12 lack memory, 3 are disabled"),
                ("reasons", "reasons without counts; hides the size of the fleet"),
                ("none", "no reasons"),
            ],
            help="Detail of a NoValidHost message for a tenant. It never includes a host name.",
        ),
        cfg.StrOpt(
            "public_url",
            help="Base URL of the links in responses, such as https://cloud.example:8774. Unset: taken from the "
            "request.",
        ),
    ],
    DATABASE: [
        cfg.StrOpt(
            "connection",
            default="sqlite:///covey.sqlite",
            secret=True,
            help="Database URL: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.",
        ),
        cfg.IntOpt(
            "pool_size",
            default=0,
            min=0,
            help="Maximum connections of each process. 0 derives it from request_slots.",
        ),
    ],
    SCHEDULER: [
        cfg.StrOpt(
            "default_availability_zone",
            default="nova",
            help="Availability zone of hosts whose aggregates set none.",
        ),
        cfg.FloatOpt("cpu_weight_multiplier", default=1.0, help="Weight of free VCPUs."),
        cfg.FloatOpt(
            "ram_weight_multiplier", default=1.0, help="Weight of free memory; a negative value stacks servers."
        ),
        cfg.FloatOpt("disk_weight_multiplier", default=1.0, help="Weight of free disk."),
        cfg.IntOpt(
            "host_subset_size",
            default=1,
            min=1,
            help="Pick randomly among this many top-ranked hosts. 1 always picks the best.",
        ),
        cfg.IntOpt(
            "max_attempts",
            default=3,
            min=1,
            help="Hosts to try before a failing build becomes ERROR.",
        ),
        cfg.FloatOpt(
            "rebalance_time_limit_s",
            default=10.0,
            min=0.1,
            help="Seconds to search for the rebalance plan with the fewest moves; then the best plan so far is used.",
        ),
        cfg.BoolOpt(
            "enable_forbidden_aggregates_filter",
            default=False,
            deprecated_name="enable_isolated_aggregate_filtering",
            help="Reserve the hosts of an aggregate with `trait:NAME=required` metadata for servers whose flavor and "
            "image together require all these traits.",
        ),
        cfg.FloatOpt("cpu_allocation_ratio", default=4.0, min=0.01, help="VCPU overcommit ratio of new hosts."),
        cfg.FloatOpt("ram_allocation_ratio", default=1.0, min=0.01, help="Memory overcommit ratio of new hosts."),
        cfg.FloatOpt("disk_allocation_ratio", default=1.0, min=0.01, help="Disk overcommit ratio of new hosts."),
    ],
    WORKER: [
        cfg.IntOpt(
            "threads",
            default=1,
            min=0,
            help="Worker threads of each serving process. 0 leaves all jobs to `covey worker`.",
        ),
        cfg.FloatOpt(
            "lease_s",
            default=30.0,
            min=1,
            help="Seconds after which another worker may take an unfinished job. Must exceed the longest step.",
        ),
        cfg.FloatOpt(
            "poll_interval_s", default=0.2, min=0.01, help="Seconds between polls of a worker that finds no job."
        ),
    ],
    DRIVER: [
        cfg.FloatOpt("latency_s", default=0.0, min=0, help="Duration of each step of the simulated backend."),
        cfg.FloatOpt("failure_rate", default=0.0, min=0, max=1, help="Share of its steps that fail, from 0 to 1."),
        cfg.IntOpt("seed", help="Seed of its failures, to reproduce a run."),
    ],
    NOTIFICATIONS: [
        cfg.StrOpt(
            "driver",
            default="noop",
            choices=[
                ("noop", "sends nothing"),
                ("log", "writes to the log"),
                ("messagingv2", "sends to the broker at transport_url, through oslo.messaging"),
            ],
            help="How notifications about server groups and servers are sent.",
        ),
    ],
    QUOTA: [
        cfg.IntOpt(name, default=limit, min=-1, help=f"Default quota of {name.replace('_', ' ')}; -1 is unlimited.")
        for name, limit in DEFAULTS.items()
    ],
    CLUSTERING: [
        cfg.IntOpt("max_clusters_per_project", default=100, min=0, help="Maximum clusters of a project."),
        cfg.IntOpt("max_nodes_per_cluster", default=1000, min=1, help="Maximum nodes of a cluster."),
        cfg.IntOpt(
            "default_action_timeout",
            default=3600,
            min=1,
            help="Seconds after which an action on a cluster or a node times out. A cluster can set its own.",
        ),
    ],
    DASHBOARD: [
        cfg.BoolOpt("enabled", default=True, help="Serve the dashboard at /dashboard/."),
        cfg.IntOpt(
            "max_streams",
            default=16,
            min=0,
            help="Maximum open event streams of each process. Each occupies one of [api] threads; half of the threads "
            "stay free for requests. Without a stream the dashboard polls every few seconds.",
        ),
    ],
    CORS: [
        cfg.ListOpt("allowed_origin", help="Allowed origins, such as https://cloud.example. Unset: no CORS headers."),
        cfg.BoolOpt("allow_credentials", default=True, help="Allow requests with credentials."),
        cfg.ListOpt("expose_headers", help="Response headers that a page may read, besides the safelisted ones."),
        cfg.IntOpt("max_age", default=3600, min=0, help="Seconds that a browser may cache a preflight response."),
        cfg.ListOpt(
            "allow_methods", default=["GET", "POST", "PUT", "PATCH", "DELETE"], help="Allowed request methods."
        ),
        cfg.ListOpt("allow_headers", help="Allowed request headers, besides the safelisted ones."),
    ],
    LOG: [
        cfg.StrOpt("level", default="info", choices=["debug", "info", "warning", "error"], help="Lowest level to log."),
        cfg.StrOpt(
            "format",
            default="json",
            choices=["json", "console"],
            help="One JSON object per line, or coloured text for a terminal.",
        ),
    ],
}


def load(files: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Return all options, read from these files (or oslo.config's default ones) and the environment."""
    conf = cfg.ConfigOpts()
    for group, options in OPTIONS.items():
        conf.register_group(cfg.OptGroup(group.name, title=group.title))  # a copy: a group stores overrides
        conf.register_opts(options, group.name)
    policy_options.set_defaults(conf)
    conf(args=[], project="covey", default_config_files=list(files) or None)
    return conf


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by group, for `covey config sample`."""
    return [(group.name, options) for group, options in OPTIONS.items()]
