"""Access rules: the defaults, the overrides of a policy.yaml, and the decision cache."""

import ast
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import covey
from covey import access as module
from covey import config
from covey.access import OsloAccess, list_rules
from covey.model.access import OPERATORS, Target
from covey.model.access_rules import RULES
from covey.model.errors import Forbidden, Invalid
from covey.model.ids import ProjectId
from tests.build import an_actor, an_admin

ADMIN, MEMBER, READER = an_admin(), an_actor(), an_actor("rita", "web", "reader")
CREATE, LIST_ZONES, LIST_KEYS = (
    f"os_compute_api:{rule}" for rule in ("os-aggregates:create", "os-availability-zone:list", "os-keypairs:index")
)
OWN, OTHER = Target(project_id="web", user_id="alice"), Target(project_id="db", user_id="bob")


class Policy:
    """A policy.yaml, and the access decisions under it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._edits = 0
        self.write("")
        conf = config.load()
        conf.set_override("policy_file", str(path), "oslo_policy")
        self.access = OsloAccess(conf)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self._edits += 10
        os.utime(self.path, (self._edits, self._edits))  # two edits never share a tick of a coarse clock


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(tmp_path / "policy.yaml")


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the reload interval."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


DEFAULTS = {
    "an administrator may do anything": (ADMIN, CREATE, OTHER, True),
    "a member may not do what operators do": (MEMBER, CREATE, OWN, False),
    "a rule without a condition allows every actor": (READER, LIST_ZONES, OTHER, True),
    "a user may look at what is the user's own": (MEMBER, LIST_KEYS, OWN, True),
    "a user may not look at what is another's": (MEMBER, LIST_KEYS, OTHER, False),
    "a reader may look at the project's things": (READER, "os_compute_api:os-quota-sets:show", OWN, True),
    "a reader may not look at another project's": (READER, "os_compute_api:os-quota-sets:show", OTHER, False),
    "a member may change the project's things": (MEMBER, "image:modify_image", OWN, True),
    "a reader may not change them": (READER, "image:modify_image", OWN, False),
    "a member may not change another project's": (MEMBER, "image:modify_image", OTHER, False),
    "an administrator may change another project's": (ADMIN, "image:modify_image", OTHER, True),
    "what has no rule is forbidden": (ADMIN, "os_compute_api:no-such-rule", OWN, False),
}


def test_default_rules_decide_by_role_and_project(policy: Policy, subtests: pytest.Subtests) -> None:
    for claim, (actor, rule, target, verdict) in DEFAULTS.items():
        with subtests.test(claim):
            assert policy.access.allows(actor, rule, target) is verdict
            assert policy.access.allows(actor, rule, target) is verdict, "and remembers it"


def test_forbidden_names_the_rule(policy: Policy) -> None:
    policy.access.require(ADMIN, CREATE)
    with pytest.raises(Forbidden) as caught:
        policy.access.require(MEMBER, CREATE)
    assert caught.value.message == f"Policy doesn't allow {CREATE} to be performed."


def test_changed_policy_file_applies_after_the_reload_interval(policy: Policy, now_s: list[float]) -> None:
    assert not policy.access.allows(MEMBER, CREATE)
    policy.write(f'"{CREATE}": "role:member"')
    now_s[0] += module.RELOAD_INTERVAL_S * 0.9
    assert not policy.access.allows(MEMBER, CREATE)
    now_s[0] += module.RELOAD_INTERVAL_S * 0.2
    assert policy.access.allows(MEMBER, CREATE)
    assert policy.access.allows(ADMIN, CREATE)
    policy.write("")
    now_s[0] += module.RELOAD_INTERVAL_S
    assert not policy.access.allows(MEMBER, CREATE)


def test_overridden_rule_changes_the_rules_that_refer_to_it(policy: Policy, now_s: list[float]) -> None:
    policy.write('"context_is_admin": "role:boss"')
    now_s[0] += module.RELOAD_INTERVAL_S
    assert not policy.access.allows(ADMIN, CREATE)
    assert policy.access.allows(an_actor("b", "p", "boss"), CREATE)


def record_enforcements(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    enforce = policy.access._enforcer.enforce

    def counted(rule: str, *more: object) -> object:
        asked.append(rule)
        return enforce(rule, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(policy.access._enforcer, "enforce", counted)
    return asked


def test_each_decision_is_enforced_once(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record_enforcements(policy, monkeypatch)
    for _ in range(3):
        for actor in (ADMIN, MEMBER):
            for rule in (CREATE, LIST_KEYS):
                for target in (OWN, OTHER):
                    policy.access.allows(actor, rule, target)
    assert len(asked) == 8


def test_http_rule_disables_the_cache(policy: Policy, now_s: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    policy.write('"os_compute_api:limits": "http://example.test/%(project_id)s"')
    now_s[0] += module.RELOAD_INTERVAL_S
    asked = record_enforcements(policy, monkeypatch)
    for _ in range(3):
        assert policy.access.allows(ADMIN, CREATE)
    assert len(asked) == 3


def test_cache_is_bounded(policy: Policy, monkeypatch: pytest.MonkeyPatch, now_s: list[float]) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_DECISIONS", 5)
    for number in range(20):
        policy.access.allows(an_actor(f"user-{number}"), CREATE)
    assert len(policy.access._decisions) == 5
    now_s[0] += module.RELOAD_INTERVAL_S
    policy.access.allows(MEMBER, CREATE)
    assert len(policy.access._decisions) == 1


def test_policy_file_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert OsloAccess(config.load()).allows(ADMIN, CREATE)


def test_configured_policy_file_must_exist(tmp_path: Path) -> None:
    conf = config.load()
    conf.set_override("policy_file", str(tmp_path / "nope.yaml"), "oslo_policy")
    with pytest.raises(Invalid, match=r"nope\.yaml, does not exist"):
        OsloAccess(conf)


BROKEN = {"no YAML": "a: [", "a list": "- x", "a word": "hello", "a number as a rule": '"a": 3', "no file": None}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_last_rules_stay_in_force_until_the_file_can_be_read(
    policy: Policy, now_s: list[float], text: str | None
) -> None:
    policy.write(f'"{CREATE}": "role:member"')
    now_s[0] += module.RELOAD_INTERVAL_S
    assert policy.access.allows(MEMBER, CREATE)
    with capture_logs() as logged:
        if text is None:
            policy.path.unlink()
        else:
            policy.write(text)
        for _ in range(3):
            now_s[0] += module.RELOAD_INTERVAL_S
            assert policy.access.allows(MEMBER, CREATE)
            assert not policy.access.allows(READER, CREATE)
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [("access.rules_kept", "error")]
    policy.write("")
    now_s[0] += module.RELOAD_INTERVAL_S
    assert not policy.access.allows(MEMBER, CREATE), "an empty file restores the defaults"


def test_rules_have_unique_names_and_descriptions() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(rule.description.endswith(".") for rule in RULES)


def test_policy_sample_lists_every_rule_with_its_requests() -> None:
    shown = {rule.name: rule for rule in list_rules()}
    assert list(shown) == [rule.name for rule in RULES]
    for rule in RULES:
        operations = getattr(shown[rule.name], "operations", [])
        assert [f"{each['method']} {each['path']}" for each in operations] == list(rule.requests)


def test_every_rule_is_enforced_in_the_source() -> None:
    texts = _string_constants()
    named_by_others = {rule.name for rule in RULES if any(f"rule:{rule.name}" in other.check for other in RULES)}
    unused = [rule.name for rule in RULES if rule.name not in named_by_others and not _spelled(rule.name, texts)]
    assert unused == ["admin_api"]  # Placement's base rule, for policy files that refer to it


def _spelled(name: str, texts: set[str]) -> bool:
    """Return whether the name is a concatenation of these texts, as in f"{_RULE}index"."""
    ends = {0}
    for end in range(1, len(name) + 1):
        if any(name[start:end] in texts for start in ends):
            ends.add(end)
    return len(name) in ends


def _string_constants() -> set[str]:
    """Return every string constant of the source, outside the rules, that has two characters or more."""
    root = Path(covey.__file__).parent
    sources = (path for path in root.rglob("*.py") if path.parent != root / "model" / "access_rules")
    nodes = (node for path in sources for node in ast.walk(ast.parse(path.read_text())))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if len(text) > 1 or text == ":"}


def test_actor_without_a_project_matches_no_target(policy: Policy) -> None:
    """oslo.policy would compare None as the text "None"."""
    actor = replace(MEMBER, project_id=None)
    for project in (None, "None", "", "web"):
        assert not policy.access.allows(actor, "project_member", Target(project_id=project))
    assert not policy.access.allows(replace(MEMBER, project_id=ProjectId("None")), "project_member", Target())


def test_no_actor_has_the_project_of_the_operators() -> None:
    with pytest.raises(ValueError, match="has the project None"):
        replace(MEMBER, project_id=OPERATORS)
