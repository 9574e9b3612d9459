"""Access rules by oslo.policy: the defaults of the model, and what an operator's policy.yaml makes of them."""

import threading
import time

from oslo_config import cfg
from oslo_policy import policy

from covey.model.access import AccessRule, Actor, Target
from covey.model.access_rules import RULES
from covey.model.errors import Forbidden

RELOAD_S = 1.0  # how soon a changed policy.yaml counts
REMEMBERED = 50_000  # verdicts

_Question = tuple[str, Actor, Target]


class OsloAccess:
    """Asks oslo.policy once for each different question, then remembers the answer until the rules change.

    A verdict is a function of rule, actor and target alone, so a remembered one is exact. Rules that ask
    another server (http:) are the exception, and with one of them nothing is remembered.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = policy.Enforcer(conf, use_conf=True)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults(list_rules())
        self._lock = threading.Lock()
        self._verdicts: dict[_Question, bool] = {}
        self._rules: object = None
        self._remember = True
        self._look_again_at = 0.0

    def allows(self, actor: Actor, rule: str, target: Target = Target()) -> bool:  # noqa: B008 -- frozen
        """Whether the actor may do what the rule guards."""
        self._notice_changes()
        question = (rule, actor, target)
        known = self._verdicts.get(question)
        if known is not None:
            return known
        if not self._remember:  # such a rule asks another server: nobody else should wait for that
            return self._ask(question)
        with self._lock:  # oslo.policy fills its rules one by one when it reads them anew
            verdict = self._ask(question)
            if len(self._verdicts) < REMEMBERED:
                self._verdicts[question] = verdict
        return verdict

    def require(self, actor: Actor, rule: str, target: Target = Target()) -> None:  # noqa: B008 -- frozen
        """Raises Forbidden, with the rule's name, unless the rule allows it."""
        if not self.allows(actor, rule, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def _ask(self, question: _Question) -> bool:
        rule, actor, target = question
        return bool(self._enforcer.enforce(rule, _about(target), _credentials(actor)))

    def _notice_changes(self) -> None:
        now = time.monotonic()
        if now < self._look_again_at:
            return
        with self._lock:
            self._look_again_at = now + RELOAD_S
            self._enforcer.load_rules()
            if self._rules is not self._enforcer.rules or len(self._verdicts) >= REMEMBERED:
                self._rules = self._enforcer.rules
                self._remember = not any("http" in str(check) for check in self._enforcer.rules.values())
                self._verdicts = {}


def list_rules() -> list[policy.RuleDefault]:
    """Every rule, for the enforcer and for `covey policy sample`."""
    return [_default(rule) for rule in RULES]


def _default(rule: AccessRule) -> policy.RuleDefault:
    if not rule.requests:
        return policy.RuleDefault(rule.name, rule.check, rule.description, _former(rule))
    operations: list[policy.Operation] = [
        {"method": method, "path": path} for method, path in (request.split(" ", 1) for request in rule.requests)
    ]
    return policy.DocumentedRuleDefault(rule.name, rule.check, rule.description, operations)


def _former(rule: AccessRule) -> policy.DeprecatedRule | None:
    if not rule.formerly:
        return None
    return policy.DeprecatedRule(
        rule.name, rule.formerly, deprecated_reason="It is for services alone.", deprecated_since="0.1.0"
    )


def _about(target: Target) -> dict[str, object]:
    return {"project_id": target.project_id, "user_id": target.user_id, "scope_name": target.scope_name}


def _credentials(actor: Actor) -> dict[str, object]:
    who: dict[str, object] = {"roles": sorted(actor.roles), "project_id": actor.project_id, "user_id": actor.user_id}
    return who | {"system_scope": "all"} if actor.for_system else who
