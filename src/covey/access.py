"""Access rules enforced by oslo.policy: the defaults of the model, overridden by an operator's policy.yaml."""

import threading
import time

from oslo_config import cfg
from oslo_policy import policy

from covey.model.access import AccessRule, Actor, Target
from covey.model.access_rules import RULES
from covey.model.errors import Forbidden

RELOAD_INTERVAL_S = 1.0  # between checks for a changed policy.yaml
MAX_CACHED_DECISIONS = 50_000

_DecisionKey = tuple[str, Actor, Target]


class OsloAccess:
    """Access decisions of oslo.policy, cached until the rules change.

    A decision depends on rule, actor and target alone, so a cached one is exact. Rules that call another server
    (http:) are the exception: a single one of them disables the cache.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = policy.Enforcer(conf, use_conf=True)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults(list_rules())
        self._lock = threading.Lock()
        self._decisions: dict[_DecisionKey, bool] = {}
        self._rules: object = None
        self._cacheable = True
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
            self._enforcer.load_rules()
            if self._rules is not self._enforcer.rules or len(self._decisions) >= MAX_CACHED_DECISIONS:
                self._rules = self._enforcer.rules
                self._cacheable = not any("http" in str(check) for check in self._enforcer.rules.values())
                self._decisions = {}


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
    return {"project_id": target.project_id, "user_id": target.user_id, "scope_name": target.scope_name}


def _credentials(actor: Actor) -> dict[str, object]:
    credentials: dict[str, object] = {
        "roles": sorted(actor.roles),
        "project_id": actor.project_id,
        "user_id": actor.user_id,
    }
    return credentials | {"system_scope": "all"} if actor.system_scoped else credentials
