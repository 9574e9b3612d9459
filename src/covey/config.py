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
IMAGE = cfg.OptGroup("image", title="The image catalogue")
WORKER = cfg.OptGroup("worker", title="Background jobs")
DRIVER = cfg.OptGroup("driver", title="The virtualization backend")
AGENTS = cfg.OptGroup("agents", title="Agents of hosts")
AGENT = cfg.OptGroup("agent", title="The agent of a host, `covey agent`")
SIMULATED_HYPERVISOR = cfg.OptGroup("simulated_hypervisor", title="The hypervisor of an agent that runs no guests")
LIBVIRT = cfg.OptGroup("libvirt", title="Guests of an agent on libvirt")
NOVA = cfg.OptGroup("nova", title="The Nova whose Placement service Covey is")
NOTIFICATIONS = cfg.OptGroup("notifications", title="Outgoing notifications")
DASHBOARD = cfg.OptGroup("dashboard", title="The web dashboard")
CORS = cfg.OptGroup("cors", title="Cross-origin resource sharing")
LOG = cfg.OptGroup("log", title="Logging")

_KEPT_RATIO = "Unset: the host keeps its ratio, which an operator may change; a new one gets that of [scheduler]."
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
        cfg.IntOpt(
            "threads",
            default=256,
            min=1,
            max=1024,
            help="Threads of each serving process, which start when they are needed. A process has 3/8 of this number "
            "in addition, for bodies that arrive slowly. A request that finds all but 8 threads busy gets 503 at once.",
        ),
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
        cfg.IntOpt(
            "placement_max_body_bytes",
            default=8 << 20,
            min=1024,
            help="Maximum size of a JSON body of the Placement API; its reshaper takes many consumers at once.",
        ),
        cfg.FloatOpt(
            "request_timeout_s",
            default=7.0,
            min=1,
            help="Seconds that a request may wait in all: for a request slot, a connection, the database. Then it gets "
            "503.",
        ),
        cfg.FloatOpt(
            "connection_timeout_s",
            default=30.0,
            min=1,
            help="Seconds without sent data after which a connection with an incomplete request is closed. Must exceed "
            "the longest request: request_timeout_s plus [scheduler] rebalance_time_limit_s or, with agents, plus at "
            "least 20. Linux only.",
        ),
        cfg.FloatOpt(
            "frozen_after_s",
            default=5.0,
            min=0,
            help="Seconds without a heartbeat after which a serving process counts as frozen: it is killed, and "
            "another one starts. 0 never kills one, for debuggers.",
        ),
        cfg.HostAddressOpt("metrics_host", default="127.0.0.1", help="Address to serve metrics_port on."),
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
            help="Detail of a NoValidHost message for a tenant, which never includes a host name. Without counts, a "
            "tenant's headroom is rounded down to a power of two.",
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
            help="Maximum connections of each process, besides one that reads the fleet. 0 derives it from [api] "
            "request_slots and [worker] calls.",
        ),
        cfg.IntOpt(
            "connect_timeout_s",
            default=3,
            min=2,
            help="Seconds to wait for a new connection to PostgreSQL, and for its network to confirm sent data.",
        ),
        cfg.FloatOpt("pool_timeout_s", default=3.0, min=0.1, help="Seconds to wait for a free connection of the pool."),
        cfg.FloatOpt(
            "lock_timeout_s",
            default=4.0,
            min=0.1,
            help="Seconds that a statement waits for a lock. Then the request gets 503, a job is repeated, and a "
            "command ends without a change. `covey db upgrade` has no such limit.",
        ),
        cfg.FloatOpt(
            "statement_timeout_s",
            default=5.0,
            min=0.1,
            help="Seconds that a statement of a request or a job may take on PostgreSQL. Commands have no such limit.",
        ),
        cfg.FloatOpt(
            "idle_in_transaction_timeout_s",
            default=10.0,
            min=1,
            help="Seconds after which PostgreSQL ends a transaction whose process is frozen, and frees its locks.",
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
            help="Hosts to try before a failing build or evacuation becomes ERROR, or a failing unshelve ends.",
        ),
        cfg.FloatOpt(
            "rebalance_time_limit_s",
            default=10.0,
            min=0.1,
            help="Seconds to search for the rebalance plan with the fewest moves; then the best plan so far is used.",
        ),
        cfg.IntOpt(
            "tenant_rebalance_max_moves",
            default=10,
            min=1,
            help="Maximum moves of a rebalance that a tenant starts, where the access rule "
            "`os_compute_api:os-server-groups:rebalance:own` lets tenants start one. The limit at its start holds "
            "until its end.",
        ),
        cfg.IntOpt(
            "tenant_rebalance_interval_s",
            default=3600,
            min=0,
            help="Seconds after a rebalance of a server group before a tenant may start one; a rebalance without moves "
            "does not count.",
        ),
        cfg.IntOpt(
            "max_rebalance_searches",
            default=2,
            min=1,
            help="Searches for rebalance plans that run at once in each process for requests, one of each project. "
            "Further requests get 503.",
        ),
        cfg.BoolOpt(
            "enable_forbidden_aggregates_filter",
            default=False,
            deprecated_name="enable_isolated_aggregate_filtering",
            help="Reserve the hosts of an aggregate with `trait:NAME=required` metadata for servers whose flavor and "
            "image together require all these traits.",
        ),
        cfg.BoolOpt(
            "isolate_forced_hosts",
            default=True,
            help="Refuse a forced host (`ZONE:HOST`, a forced move) in an aggregate that is closed to the server: by "
            "required traits, or for other projects. Policies of server groups never apply to a forced host.",
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
            help="Seconds after which another worker takes the jobs of a worker that died. A living one renews its "
            "leases.",
        ),
        cfg.IntOpt(
            "max_attempts",
            default=10,
            min=1,
            help="Attempts after which a job that fails is parked: no worker takes it until `covey manage retry_jobs`.",
        ),
        cfg.IntOpt("calls", default=16, min=1, help="Maximum driver calls of a process at a time."),
        cfg.IntOpt("calls_per_host", default=4, min=1, help="Maximum driver calls of a process to one host at a time."),
        cfg.FloatOpt(
            "poll_interval_s", default=0.2, min=0.01, help="Seconds between polls of a worker that finds no job."
        ),
    ],
    DRIVER: [
        cfg.StrOpt(
            "backend",
            default="simulated",
            choices=[
                ("simulated", "runs no servers; for demos and tests"),
                ("agents", "the agent of each host runs its servers"),
            ],
            help="What runs servers.",
        ),
        cfg.FloatOpt("latency_s", default=0.0, min=0, help="Duration of each step of the simulated backend."),
        cfg.FloatOpt(
            "failure_rate", default=0.0, min=0, max=1, help="Share of the simulated steps that fail, from 0 to 1."
        ),
        cfg.IntOpt("seed", help="Seed of the simulated failures, to reproduce a run."),
    ],
    AGENTS: [
        cfg.FloatOpt("heartbeat_s", default=10.0, min=0.1, help="Seconds between heartbeats of an agent."),
        cfg.FloatOpt(
            "down_after",
            default=60.0,
            min=0.5,
            help="Seconds without a heartbeat after which a host is down and takes no servers. A host without an agent "
            "is up unless it is forced down.",
        ),
        cfg.FloatOpt(
            "call_lease_s",
            default=30.0,
            min=1,
            help="Seconds after which a call that an agent took but did not report is handed out again.",
        ),
        cfg.BoolOpt("auto_register", default=True, help="Let agents add hosts that the fleet does not have."),
        cfg.StrOpt(
            "binding",
            default="name",
            choices=["name", "first"],
            help="Which user a host without an agent is bound to, at its first registration. name: only a user who has "
            "the name of the host, with or without its domain and the prefix agent-. first: any user with the role "
            "service.",
        ),
        cfg.IntOpt(
            "max_polls",
            default=1000,
            min=1,
            max=10_000,
            help="Agents of each serving process that wait for calls at once, each in a thread of its own besides "
            "[api] threads. More of them get 503, and retry.",
        ),
        cfg.StrOpt(
            "fence_command",
            default="",
            help="Command that makes sure that a host runs no guests, by its power switch for instance. It gets the "
            "name of the host as its argument, and succeeds with exit status 0. It may be run again after a crash of "
            "the process that ran it. Empty: Covey fences no host by a command.",
        ),
        cfg.FloatOpt(
            "fence_timeout_s", default=60.0, min=1, help="Seconds after which fence_command is ended and has failed."
        ),
        cfg.BoolOpt(
            "evacuate",
            default=False,
            help="Evacuate hosts that are down, once they are fenced by fence_command or by themselves.",
        ),
    ],
    AGENT: [
        cfg.StrOpt("host", help="Name of the host. Unset: the machine's host name."),
        cfg.StrOpt("service", default="http://127.0.0.1:8774", help="URL of the service."),
        cfg.StrOpt(
            "hypervisor",
            default="libvirt",
            choices=[("libvirt", "QEMU and KVM, by libvirt"), ("simulated", "runs no guests; for tests and demos")],
            help="What runs the guests.",
        ),
        cfg.StrOpt(
            "state_dir",
            default="/var/lib/covey/agent",
            help="Directory of the agent's lock, image cache and state. Each host has its own.",
        ),
        cfg.StrOpt(
            "auth_strategy",
            default="keystone",
            choices=[
                ("keystone", "a token of Keystone, with the credentials in [agent_auth]"),
                ("basic", "HTTP Basic, with username and password"),
                ("none", "for a service with auth_strategy=none"),
            ],
            help="Credentials of the agent; the same as [api] auth_strategy of the service. The user needs the role "
            "`service`; the first registration binds the host to that user.",
        ),
        cfg.StrOpt("username", help="User for auth_strategy=basic."),
        cfg.StrOpt("password", secret=True, help="Password for auth_strategy=basic."),
        cfg.StrOpt("cafile", help="File of CA certificates that verify the service. Unset: those of the system."),
        cfg.BoolOpt(
            "insecure",
            default=False,
            help="Do not verify the service's certificate, and send a password also over HTTP, where the network can "
            "read it.",
        ),
        cfg.IntOpt("reserved_vcpus", default=0, min=0, help="VCPUs that servers do not get."),
        cfg.IntOpt("reserved_memory_mb", default=512, min=0, help="Memory that servers do not get."),
        cfg.IntOpt("reserved_disk_gb", default=0, min=0, help="Disk that servers do not get."),
        cfg.FloatOpt("cpu_allocation_ratio", min=0.01, help="VCPU overcommit ratio of this host. " + _KEPT_RATIO),
        cfg.FloatOpt("ram_allocation_ratio", min=0.01, help="Memory overcommit ratio of this host. " + _KEPT_RATIO),
        cfg.FloatOpt("disk_allocation_ratio", min=0.01, help="Disk overcommit ratio of this host. " + _KEPT_RATIO),
        cfg.IntOpt("concurrency", default=8, min=1, max=64, help="Calls that run at once, one for each server."),
        cfg.FloatOpt(
            "self_fencing_s",
            min=1,
            help="Seconds without contact to the service after which the agent stops all guests hard, so that the "
            "service may evacuate them. Unset: guests run on; an evacuation needs an operator or a fencing command.",
        ),
        cfg.BoolOpt(
            "resume_guests_state_on_host_boot",
            default=False,
            help="Start the guests that ran before the host was rebooted. Otherwise their servers become SHUTOFF.",
        ),
        cfg.FloatOpt("image_cache_gb", default=50.0, min=0, help="Maximum size of cached images that no disk needs."),
        cfg.FloatOpt(
            "power_sync_s",
            default=30.0,
            min=1,
            help="Seconds between checks for missed power events, and for guests to remove.",
        ),
        cfg.FloatOpt("stop_timeout_s", default=10.0, min=0, help="Seconds that running calls have after SIGTERM."),
    ],
    SIMULATED_HYPERVISOR: [
        cfg.StrOpt(
            "state_file", help="SQLite file of the guests, which all simulated hosts share. Unset: kept in memory."
        ),
        cfg.FloatOpt("latency_s", default=0.0, min=0, help="Duration of each verb."),
        cfg.FloatOpt("failure_rate", default=0.0, min=0, max=1, help="Share of verbs that fail, from 0 to 1."),
        cfg.IntOpt("seed", help="Seed of the simulated failures, to reproduce a run."),
        cfg.BoolOpt("shared_disks", default=True, help="Whether all hosts reach a guest's disk."),
        cfg.IntOpt("vcpus", default=16, min=1, help="VCPUs of the host."),
        cfg.IntOpt("memory_mb", default=65536, min=1, help="Memory of the host."),
        cfg.IntOpt("disk_gb", default=1000, min=0, help="Disk of the host."),
    ],
    LIBVIRT: [
        cfg.StrOpt("uri", default="qemu:///system", help="URI of this host's libvirt."),
        cfg.StrOpt(
            "peer_uri",
            default="qemu+tls://{address}/system",
            help="URI by which this host reaches the libvirt of another, to migrate guests to it.",
        ),
        cfg.StrOpt(
            "address", help="Address at which other hosts reach this host's libvirt. Unset: the machine's host name."
        ),
        cfg.StrOpt(
            "instances_dir",
            default="/var/lib/covey/instances",
            help="Directory of the disks of guests. The same path on every host.",
        ),
        cfg.BoolOpt(
            "shared_disks",
            default=False,
            help="Whether instances_dir is on storage that all hosts share. If not, a migration copies disks, and an "
            "evacuated guest starts from its image again.",
        ),
        cfg.StrOpt("bridge", help="Bridge of the guests' network interface. Unset: guests have none."),
        cfg.StrOpt(
            "virt_type",
            default="auto",
            choices=[("auto", "kvm where libvirt offers it"), ("kvm", "hardware"), ("qemu", "emulation")],
            help="How guests are run.",
        ),
        cfg.StrOpt(
            "cpu_model", help="CPU model of guests, such as Haswell-noTSX. Unset: the host's with kvm, else qemu64."
        ),
        cfg.StrOpt("machine_type", help="Machine type of guests, such as q35. Unset: libvirt's default."),
        cfg.IntOpt("tb_cache_mb", min=1, help="Size of the translation cache of an emulated guest. Unset: QEMU's."),
        cfg.StrOpt(
            "config_drive",
            default="openstack",
            choices=[
                ("openstack", "OpenStack's layout, volume config-2"),
                ("nocloud", "cloud-init's NoCloud, volume cidata"),
                ("none", "no config drive"),
            ],
            help="Layout of the drive from which cloud-init reads hostname, keys and user data.",
        ),
        cfg.IntOpt(
            "migration_bandwidth_mib",
            default=0,
            min=0,
            help="Limit of a live migration in MiB a second; 0 is unlimited.",
        ),
        cfg.FloatOpt(
            "stop_timeout_s",
            default=60.0,
            min=0,
            help="Seconds in which a guest that is stopped, rebooted or moved may shut down by itself.",
        ),
        cfg.FloatOpt("connect_timeout_s", default=5.0, min=0.1, help="Seconds to wait for another host to answer."),
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
        *(
            cfg.IntOpt(name, default=limit, min=-1, help=f"Default quota of {name.replace('_', ' ')}; -1 is unlimited.")
            for name, limit in DEFAULTS.items()
        ),
        cfg.IntOpt(
            "max_members_per_group",
            default=-1,
            min=-1,
            help="Maximum members of one server group, of all users together; -1 is unlimited. `server_group_members` "
            "limits the members of each user, as in Nova. In a group of Nova, instances with a host count.",
        ),
    ],
    CLUSTERING: [
        cfg.IntOpt("max_clusters_per_project", default=100, min=0, help="Maximum clusters of a project."),
        cfg.IntOpt("max_nodes_per_cluster", default=1000, min=1, help="Maximum nodes of a cluster."),
        cfg.IntOpt("max_profiles_per_project", default=1000, min=0, help="Maximum profiles of a project."),
        cfg.IntOpt("max_policies_per_project", default=1000, min=0, help="Maximum policies of a project."),
        cfg.IntOpt("max_receivers_per_project", default=1000, min=0, help="Maximum receivers of a project."),
        cfg.IntOpt(
            "max_orphan_nodes_per_project",
            default=1000,
            min=0,
            help="Maximum nodes of a project outside clusters, checked when it creates one.",
        ),
        cfg.IntOpt(
            "history_days",
            default=30,
            min=1,
            help="Days after which ended actions, and events, are deleted.",
        ),
        cfg.IntOpt(
            "max_history_per_project",
            default=100_000,
            min=1,
            help="Maximum actions, and maximum events, of a project; the oldest ones beyond are deleted earlier.",
        ),
        cfg.IntOpt(
            "default_action_timeout",
            default=3600,
            min=1,
            help="Seconds after which an action on a cluster or a node times out. A cluster can set its own.",
        ),
    ],
    NOVA: [
        cfg.StrOpt(
            "url",
            help="Address of Nova's Compute API, such as http://nova.example:8774/v2.1. Covey asks it, with the token "
            "of the caller, about server groups that Covey does not know. Unset: the address that `covey sync nova` "
            "reads; without either, Nova's scheduler must report a group first. The group also has keystoneauth's "
            "options for credentials and endpoint: auth_type, auth_url, username, password, region_name, "
            "endpoint_override and so on. Without auth_type, Covey moves no instances of Nova.",
        ),
        cfg.IntOpt(
            "move_timeout_s",
            default=3600,
            min=1,
            help="Seconds after which Covey aborts a live migration that it began in Nova, and reports a cold one, "
            "which can't be aborted, as overdue.",
        ),
        cfg.BoolOpt(
            "cold_migrate_running",
            default=False,
            help="Whether a rebalance or a drain migrates a running instance cold, which stops it for a while, after "
            "Nova refused its live migration. The cold migration has the same destination, and is tried once.",
        ),
    ],
    IMAGE: [
        cfg.IntOpt(
            "max_images_per_project", default=1000, min=-1, help="Maximum images of a project; -1 is unlimited."
        ),
        cfg.IntOpt("max_properties", default=128, min=0, help="Maximum properties of an image."),
        cfg.IntOpt("max_tags", default=128, min=0, help="Maximum tags of an image."),
        cfg.StrOpt(
            "data_dir",
            help="Directory of the data of images, which all serving processes share. Unset: data is not stored.",
        ),
        cfg.IntOpt(
            "max_bytes_per_project",
            default=100 * 2**30,
            min=-1,
            help="Maximum data of all images of a project, in bytes, with uploads in progress; -1 is unlimited.",
        ),
    ],
    DASHBOARD: [
        cfg.BoolOpt("enabled", default=True, help="Serve the dashboard at /dashboard/."),
        cfg.IntOpt(
            "max_streams",
            default=16,
            min=0,
            help="Maximum open event streams of each process, at most an eighth of [api] threads: each occupies one. "
            "Without a stream the dashboard polls every few seconds.",
        ),
        cfg.IntOpt(
            "max_streams_per_project",
            default=4,
            min=1,
            help="Maximum open event streams of one project in each process.",
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
