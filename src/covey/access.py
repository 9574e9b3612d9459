"""Access rules enforced by oslo.policy: the defaults of the model, overridden by an operator's policy.yaml."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import structlog
from oslo_config import cfg
from oslo_policy import policy

from covey.model.access import AccessRule, Actor, Target
from covey.model.access_rules import RULES
from covey.model.errors import Forbidden, Invalid

log = structlog.get_logger()

RELOAD_INTERVAL_S = 1.0  # between checks for a changed policy.yaml
MAX_CACHED_DECISIONS = 50_000

_DecisionKey = tuple[str, Actor, Target]
_Files = dict[Path, tuple[int, int]]  # with the time of their modification, and their size
_DEFAULT = (cfg.Locations.opt_default, cfg.Locations.set_default)


class OsloAccess:
    """Access decisions of oslo.policy, cached until the rules change.

    A decision depends on rule, actor and target alone, so a cached one is exact. Rules that call another server
    (http:) are the exception: a single one of them disables the cache.

    A file that is removed or becomes unreadable changes no rule: the last rules that could be read stay in force.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise Invalid if the configured file is missing, or its rules cannot be read."""
        policy_file(conf)
        self._conf = conf
        self._seen = self._read = _files(conf)
        self._enforcer = _load(conf)
        self._enforcer.use_conf = False  # it would read the files again by itself
        self._lock = threading.Lock()
        self._decisions: dict[_DecisionKey, bool] = {}
        self._cacheable = self._is_cacheable()
        self._next_reload = 0.0

    def allows(self, actor: Actor, rule: str, target: Target = Target()) -> bool:  # noqa: B008 -- frozen
        """Return whether the rule allows the actor to act on the target."""
        self._reload()
        key = (rule, actor, target)
        cached = self._decisions.get(key)
        if cached is not None:
            return cached
        if not self._cacheable:  # an http: rule may be slow: enforce it without the lock
            return self._enforce(key)
        with self._lock:  # oslo.policy is not consistent while it reloads its rules
            decision = self._enforce(key)
            if len(self._decisions) < MAX_CACHED_DECISIONS:
                self._decisions[key] = decision
        return decision

    def require(self, actor: Actor, rule: str, target: Target = Target()) -> None:  # noqa: B008 -- frozen
        """Raise Forbidden, with the rule's name, unless the rule allows it."""
        if not self.allows(actor, rule, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def _enforce(self, key: _DecisionKey) -> bool:
        rule, actor, target = key
        return bool(self._enforcer.enforce(rule, _target_dict(target), _credentials(actor)))

    def _reload(self) -> None:
        now = time.monotonic()
        if now < self._next_reload:
            return
        with self._lock:
            self._next_reload = now + RELOAD_INTERVAL_S
            if self._read_changes() or len(self._decisions) >= MAX_CACHED_DECISIONS:
                self._cacheable = self._is_cacheable()
                self._decisions = {}

    def _read_changes(self) -> bool:
        """Return whether other rules are in force now."""
        files = _files(self._conf)
        if files == self._seen:
            return False
        self._seen = files
        problem = "".join(f"{path} was removed. " for path in self._read if path not in files)
        rules = None
        if not problem:
            try:
                rules = _load(self._conf).rules
            except Invalid as error:
                problem = error.message
        if rules is None:
            log.error("access.rules_kept", reason=problem)
            return False
        self._enforcer.set_rules(rules, overwrite=True, use_conf=False)
        self._read = files
        return True

    def _is_cacheable(self) -> bool:
        return not any("http" in str(check) for check in self._enforcer.rules.values())


def policy_file(conf: cfg.ConfigOpts) -> str | None:
    """Return the path of the file with the operator's rules; None without one. Raises Invalid if it is missing."""
    configured: str = conf.oslo_policy.policy_file
    found: str | None = conf.find_file(configured)
    location = conf.get_location("policy_file", "oslo_policy")
    if found is None and location is not None and location.location not in _DEFAULT:
        raise Invalid(f"The file of [oslo_policy] policy_file, {configured}, does not exist.")
    return found


def _files(conf: cfg.ConfigOpts) -> _Files:
    """Return the files that the rules come from."""
    options = conf.oslo_policy
    directories = [Path(found) for name in options.policy_dirs if (found := conf.find_file(name))]
    paths = [path for directory in directories if directory.is_dir() for path in sorted(directory.iterdir())]
    if main := conf.find_file(options.policy_file):
        paths.append(Path(main))
    files: _Files = {}
    for path in paths:
        with suppress(FileNotFoundError):  # removed just now
            stat = path.stat()
            files[path] = (stat.st_mtime_ns, stat.st_size)
    return files


def _load(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return an enforcer of the rules that the files have now. Raises Invalid."""
    enforcer = policy.Enforcer(conf)
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(list_rules())
    try:
        enforcer.load_rules()
    except (ValueError, TypeError, AttributeError, OSError, cfg.Error) as error:
        raise Invalid(f"The access rules cannot be read: {error}") from error
    return enforcer


def list_rules() -> list[policy.RuleDefault]:
    """Return every rule, for the enforcer and for `covey policy sample`."""
    return [_rule_default(rule) for rule in RULES]


def _rule_default(rule: AccessRule) -> policy.RuleDefault:
    if not rule.requests:
        return policy.RuleDefault(rule.name, rule.check, rule.description, _deprecated_rule(rule))
    operations: list[policy.Operation] = [
        {"method": method, "path": path} for method, path in (request.split(" ", 1) for request in rule.requests)
    ]
    return policy.DocumentedRuleDefault(rule.name, rule.check, rule.description, operations)


def _deprecated_rule(rule: AccessRule) -> policy.DeprecatedRule | None:
    if not rule.deprecated_check:
        return None
    return policy.DeprecatedRule(
        rule.name, rule.deprecated_check, deprecated_reason="Reserved for services.", deprecated_since="0.1.0"
    )


def _target_dict(target: Target) -> dict[str, object]:
    return _known({"project_id": target.project_id, "user_id": target.user_id, "scope_name": target.scope_name})


def _credentials(actor: Actor) -> dict[str, object]:
    return _known(
        {
            "roles": sorted(actor.roles),
            "project_id": actor.project_id,
            "user_id": actor.user_id,
            "system_scope": "all" if actor.system_scoped else None,
        }
    )


def _known(values: dict[str, object]) -> dict[str, object]:
    """Return the values without None, which oslo.policy would compare as the text "None"."""
    return {name: value for name, value in values.items() if value is not None}
