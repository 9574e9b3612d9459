"""Builds what a process runs from its options: the WSGI application, workers, and the parts of commands."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import sqlalchemy as sa
from oslo_config import cfg

from covey import assembly, config, logs
from covey.access import OsloAccess, policy_file
from covey.api import app
from covey.api.authentication import AuthenticationMethod, Projects
from covey.api.authentication.basic import BasicAuth, User, UsersFile
from covey.api.authentication.noauth import NoAuth, loopback_only
from covey.api.authentication.password_checks import PasswordChecks
from covey.api.cors import Cors
from covey.api.dashboard.session import KeystoneSignIn, SignIn
from covey.api.downloads import Downloads
from covey.api.metrics import Metrics
from covey.api.requests import BodyReads
from covey.assembly.services import default_ratios
from covey.clock_and_ids import new_uuid, now
from covey.model.errors import Invalid, Unavailable
from covey.model.extras import requires
from covey.request_slots import FairLimit, RequestSlots
from covey.services.agents.fenced_hosts import FencedHosts
from covey.services.fleets import Fleets
from covey.services.overview import Overview, get_overview
from covey.storage import engine as databases
from covey.storage import schema
from covey.storage.store import Store
from covey.thread_shares import ThreadShares
from covey.worker import Worker

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Application: TypeAlias = "WSGIApplication"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the command line. They override the configuration files and the environment."""

    config_files: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str, object], ...] = ()  # (group, option, value)
    only_api: str | None = None

    def load(self) -> cfg.ConfigOpts:
        """Return all options, with those of the command line applied."""
        conf = config.load(self.config_files)
        for group, option, value in self.overrides:
            conf.set_override(option, value, group)
        return conf

    def with_only_api(self, api: str | None) -> Self:
        """Return the same settings with one API served alone at the root."""
        return replace(self, only_api=api)


def with_policy_file(settings: Settings, conf: cfg.ConfigOpts) -> Settings:
    """Return settings that require the file of access rules that is found now. Raises Invalid for rules it cannot read.

    A process that starts later, when the file is gone, does not serve by the default rules.
    """
    OsloAccess(conf)
    found = policy_file(conf)
    if found is None:
        return settings
    return replace(
        settings, overrides=(*settings.overrides, ("oslo_policy", "policy_file", str(Path(found).resolve())))
    )


def engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """Connect a command to the database that the options name. It waits without a limit. Raises Invalid."""
    return _connect(conf, databases.TimeLimits(connect_s=conf.database.connect_timeout_s))


def serving_store(conf: cfg.ConfigOpts) -> Store:
    """Return the store of a process that serves requests or runs jobs: it waits for nothing without a limit."""
    options = conf.database
    limits = databases.TimeLimits(
        connect_s=options.connect_timeout_s,
        pool_s=options.pool_timeout_s,
        lock_s=options.lock_timeout_s,
        statement_s=options.statement_timeout_s,
        idle_in_transaction_s=options.idle_in_transaction_timeout_s,
    )
    return Store(_connect(conf, limits))


def _connect(conf: cfg.ConfigOpts, limits: databases.TimeLimits) -> sa.Engine:
    pool_size = conf.database.pool_size or 2 * conf.api.request_slots + 4 + conf.worker.calls
    connected: sa.Engine = databases.connect(conf.database.connection, pool_size=pool_size, limits=limits)
    return connected


def wsgi(settings: Settings, *, work: bool = False, stopping: threading.Event | None = None) -> Application:
    """Build the WSGI application of a serving process, and with `work` start its workers.

    When `stopping` is set, open event streams end.
    """
    conf = settings.load()
    logs.configure(conf.log.level, conf.log.format)
    store = serving_store(conf)
    access = OsloAccess(conf)
    shares = ThreadShares.of(conf.api.threads)
    request_slots = RequestSlots(conf.api.request_slots, conf.api.request_timeout_s, shares.requests)
    authenticate, projects = _authentication(conf, request_slots)
    metrics = Metrics()
    assembled = assembly.assemble(
        conf,
        store,
        access,
        now,
        request_slots,
        metrics.count_claim_conflict,
        metrics.set_parked_jobs,
        authenticate,
        metrics.set_agents,
        metrics.set_nova_read,
    )
    assembled.services.agents.work.polls.stopping = stopping or threading.Event()
    if work and conf.worker.threads:
        for _ in range(conf.worker.threads):
            assembled.worker().start()
    if work and settings.only_api in {None, "compute"}:
        threading.Thread(target=assembled.live.warm_up, name="covey-ready", daemon=True).start()
    parts = app.AppParts(
        services=assembled.services,
        ping=store.ping,
        access=access,
        clock=now,
        new_uuid=new_uuid,
        authenticate=authenticate,
        projects=projects,
        settings=api_settings(conf),
        metrics=metrics,
        sign_in=_sign_in(conf, request_slots),
        cors=_cors(conf),
        bodies=BodyReads(request_slots, FairLimit(shares.bodies, shares.bodies_of_project)),
        agent_bodies=BodyReads(request_slots, FairLimit(shares.agent_bodies), by_user=True),
        downloads=Downloads(FairLimit(shares.downloads)),
        agent_downloads=Downloads(FairLimit(shares.agent_downloads), by_user=True),
        stopping=stopping or threading.Event(),
    )
    built = app.build(parts, settings.only_api)
    return loopback_only(built) if conf.api.auth_strategy == "none" else built


def _cors(conf: cfg.ConfigOpts) -> Cors | None:
    options = conf.cors
    if not options.allowed_origin:
        return None
    return Cors(
        options.allowed_origin,
        options.allow_methods,
        options.allow_headers or (),
        options.expose_headers or (),
        options.max_age,
        credentials=options.allow_credentials,
    )


def api_settings(conf: cfg.ConfigOpts) -> app.ApiSettings:
    """Return the options of the HTTP service."""
    return app.ApiSettings(
        max_limit=conf.api.max_limit,
        max_body_bytes=conf.api.max_body_bytes,
        placement_max_body_bytes=conf.api.placement_max_body_bytes,
        default_zone=conf.scheduler.default_availability_zone,
        show_counts=conf.api.explain_to_tenants == "counts",
        public_url=(conf.api.public_url or "").rstrip("/") or None,
        auth_strategy=conf.api.auth_strategy,
        dashboard=conf.dashboard.enabled,
        metrics=not conf.api.metrics_port,
        max_streams=min(conf.dashboard.max_streams, ThreadShares.of(conf.api.threads).streams),
        max_streams_per_project=conf.dashboard.max_streams_per_project,
    )


def agent_polls(conf: cfg.ConfigOpts) -> int:
    """Return how many agents may wait for calls in a serving process, each in a thread of its own."""
    polls: int = conf.agents.max_polls if conf.driver.backend == "agents" else 0
    return polls


def workers(conf: cfg.ConfigOpts, number: int) -> list[Worker]:
    """Return workers for a process that serves no requests."""
    assembled = assembly.assemble(conf, serving_store(conf), OsloAccess(conf), now, RequestSlots())
    return [assembled.worker() for _ in range(number)]


def fleets(conf: cfg.ConfigOpts) -> Fleets:
    """Return the service behind `covey fleet`."""
    return Fleets(store(conf), now, new_uuid, default_ratios(conf))


def overview(conf: cfg.ConfigOpts) -> Overview:
    """Return the counts behind `covey status`."""
    scheduler = conf.scheduler
    return get_overview(
        store(conf),
        scheduler.default_availability_zone,
        isolate_aggregates=scheduler.enable_forbidden_aggregates_filter,
    )


def store(conf: cfg.ConfigOpts) -> Store:
    """Return the store of a command. Its statements may take long, but requests do not wait long behind its locks."""
    limits = databases.TimeLimits(connect_s=conf.database.connect_timeout_s, lock_s=conf.database.lock_timeout_s)
    return Store(_connect(conf, limits))


def fenced_hosts(conf: cfg.ConfigOpts) -> FencedHosts:
    """Return the service behind `covey host`."""
    return assembly.fenced_hosts(conf, store(conf), now)


def prepare(conf: cfg.ConfigOpts) -> None:
    """Create the schema in an empty database, and check it in any other. Raises Invalid, Unavailable."""
    connected = engine(conf)
    try:
        current = schema.current(connected)
        if current is None:
            schema.upgrade(connected)
        elif current != schema.head():
            raise Invalid(
                f"The database has schema {current}, this version needs {schema.head()}. Run `covey db upgrade`."
            )
    except sa.exc.OperationalError as error:
        raise Unavailable(f"The database can't be opened: {error.orig}") from error
    finally:
        connected.dispose()


def _authentication(conf: cfg.ConfigOpts, request_slots: RequestSlots) -> tuple[AuthenticationMethod, Projects | None]:
    match conf.api.auth_strategy:
        case "keystone":
            with requires("keystone", "auth_strategy=keystone"):
                from covey.api.authentication.keystone import KeystoneAuth  # noqa: PLC0415 -- optional, and slow to import

            return KeystoneAuth(conf, request_slots, ThreadShares.of(conf.api.threads).token_checks), None
        case "none":
            noauth = NoAuth()
            return noauth, noauth
        case _:
            checks = PasswordChecks[User | None](request_slots, max_threads=ThreadShares.of(conf.api.threads).identity)
            basic = BasicAuth(UsersFile(Path(conf.api.users_file)), conf.api.password_cache_s, checks)
            return basic, basic


def _sign_in(conf: cfg.ConfigOpts, request_slots: RequestSlots) -> SignIn | None:
    """Return how the dashboard gets tokens; None without Keystone. The authenticator has registered the options."""
    if conf.api.auth_strategy != "keystone":
        return None
    from covey.api.authentication.keystone_calls import KeystoneCalls  # noqa: PLC0415 -- optional, and slow to import

    options = conf.keystone_authtoken
    verify = False if options.insecure else options.cafile or True
    calls = KeystoneCalls(request_slots, ThreadShares.of(conf.api.threads).token_requests)
    return KeystoneSignIn(options.www_authenticate_uri or options.auth_url, calls, verify)


def absolute_paths(files: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of configuration files as absolute paths, for serving processes with another directory."""
    return tuple(str(Path(name).resolve()) for name in files)
