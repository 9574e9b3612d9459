"""Builds what a process runs from its options: the WSGI application, workers, and the parts of commands."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import sqlalchemy as sa
from oslo_config import cfg

from covey import assembly, config, logs
from covey.access import OsloAccess
from covey.api import app
from covey.api.authentication import Authenticator, Projects
from covey.api.authentication.basic import BasicAuth, User, UsersFile
from covey.api.authentication.noauth import NoAuth
from covey.api.authentication.password_checks import PasswordChecks
from covey.api.cors import Cors
from covey.api.dashboard.session import KeystoneSignIn, SignIn
from covey.api.metrics import Metrics
from covey.clock_and_ids import new_uuid, now
from covey.model.errors import Invalid, Unavailable
from covey.model.extras import requires
from covey.model.inventory import ResourceClass
from covey.request_slots import RequestSlots
from covey.services.fleets import Fleets
from covey.services.overview import Overview, get_overview
from covey.storage import engine as databases
from covey.storage import schema
from covey.storage.store import Store
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


def engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """Connect to the database that the options name. Raises Invalid."""
    connected: sa.Engine = databases.connect(
        conf.database.connection, pool_size=conf.database.pool_size or 2 * conf.api.request_slots + 4
    )
    return connected


def wsgi(settings: Settings, *, work: bool = False, stopping: threading.Event | None = None) -> Application:
    """Build the WSGI application of a serving process, and with `work` start its workers.

    When `stopping` is set, open event streams end.
    """
    conf = settings.load()
    logs.configure(conf.log.level, conf.log.format)
    store = Store(engine(conf))
    access = OsloAccess(conf)
    request_slots = RequestSlots(conf.api.request_slots)
    authenticate, projects = _authentication(conf, request_slots)
    metrics = Metrics()
    assembled = assembly.assemble(conf, store, access, now, request_slots, metrics.count_claim_conflict)
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
        stopping=stopping or threading.Event(),
    )
    return request_slots.guard(app.build(parts, settings.only_api))


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
        default_zone=conf.scheduler.default_availability_zone,
        show_counts=conf.api.explain_to_tenants == "counts",
        public_url=(conf.api.public_url or "").rstrip("/") or None,
        auth_strategy=conf.api.auth_strategy,
        dashboard=conf.dashboard.enabled,
        metrics=not conf.api.metrics_port,
        max_streams=min(conf.dashboard.max_streams, conf.api.threads // 2),
    )


def workers(conf: cfg.ConfigOpts, number: int) -> list[Worker]:
    """Return workers for a process that serves no requests."""
    assembled = assembly.assemble(conf, Store(engine(conf)), OsloAccess(conf), now, RequestSlots())
    return [assembled.worker() for _ in range(number)]


def fleets(conf: cfg.ConfigOpts) -> Fleets:
    """Return the service behind `covey fleet`."""
    ratios = {
        ResourceClass.VCPU: conf.scheduler.cpu_allocation_ratio,
        ResourceClass.MEMORY_MB: conf.scheduler.ram_allocation_ratio,
        ResourceClass.DISK_GB: conf.scheduler.disk_allocation_ratio,
    }
    return Fleets(Store(engine(conf)), now, new_uuid, ratios)


def overview(conf: cfg.ConfigOpts) -> Overview:
    """Return the counts behind `covey status`."""
    scheduler = conf.scheduler
    return get_overview(
        Store(engine(conf)),
        scheduler.default_availability_zone,
        isolate_aggregates=scheduler.enable_forbidden_aggregates_filter,
    )


def store(conf: cfg.ConfigOpts) -> Store:
    """Return the store behind `covey manage`."""
    return Store(engine(conf))


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


def _authentication(conf: cfg.ConfigOpts, request_slots: RequestSlots) -> tuple[Authenticator, Projects | None]:
    match conf.api.auth_strategy:
        case "keystone":
            with requires("keystone", "auth_strategy=keystone"):
                from covey.api.authentication.keystone import KeystoneAuth  # noqa: PLC0415 -- optional, and slow to import

            return KeystoneAuth(conf, request_slots), None
        case "none":
            noauth = NoAuth()
            return noauth, noauth
        case _:
            checks = PasswordChecks[User | None](request_slots, max_threads=(conf.api.threads + 1) // 2)
            basic = BasicAuth(UsersFile(Path(conf.api.users_file)), conf.api.password_cache_s, checks)
            return basic, basic


def _sign_in(conf: cfg.ConfigOpts, request_slots: RequestSlots) -> SignIn | None:
    """Return how the dashboard gets tokens; None without Keystone. The authenticator has registered the options."""
    if conf.api.auth_strategy != "keystone":
        return None
    options = conf.keystone_authtoken
    verify = False if options.insecure else options.cafile or True
    return KeystoneSignIn(options.www_authenticate_uri or options.auth_url, request_slots, verify)


def absolute_paths(files: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of configuration files as absolute paths, for serving processes with another directory."""
    return tuple(str(Path(name).resolve()) for name in files)
