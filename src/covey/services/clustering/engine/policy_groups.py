"""Server groups of affinity policies: found or made when a policy is attached, and let go when it is detached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.clustering.checks.affinity import GroupTerms, binding_data, group_of, is_inherited, read_terms
from covey.model.clustering.specs import Binding, Policy, Profile
from covey.model.errors import Conflict, Forbidden, Invalid, NotFound, OverQuota
from covey.model.groups import Group, GroupPolicy
from covey.model.ids import GroupId
from covey.ports import NewUuid
from covey.services.groups import Groups, NewGroup
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.policies import PolicyParser
from covey.storage.store import Transaction

_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Found:
    """The server group of a policy; one that was there before is inherited."""

    group: GroupId
    inherited: bool


@dataclass(frozen=True, slots=True)
class PolicyGroups:
    """Finds, makes and lets go. Whoever uses a group, or lets it go, locks its row: none is deleted that is in use."""

    groups: Groups
    new_uuid: NewUuid

    def take(self, tx: Transaction, actor: Actor, policy: Policy, profile: Profile) -> Found:
        """The group that the profile's hint names, or else the policy's; else a new one. Raises CoveyError."""
        wanted = read_terms(policy)["servergroup"]
        hinted = _hint(profile)
        name = hinted or wanted.get("name") or ""
        found = self._one(tx, actor, name) if name else None
        if found is not None:
            self._refuse_mismatch(tx, actor, wanted, found)
            return Found(found.id, inherited=True)
        if hinted:
            raise NotFound(f"The specified servergroup '{hinted}' could not be found.")
        return Found(self._make(tx, actor, wanted, name or self._new_name()), inherited=False)

    def let_go(self, tx: Transaction, actor: Actor, binding: Binding) -> str | None:
        """Deletes the group if the binding made it; tells which. Raises Forbidden.

        If another cluster uses it, it is that one's from now on, and goes with the last of them.
        """
        group = group_of(binding)
        if group is None or is_inherited(binding) or not tx.groups.lock([GroupId(group)]):
            return None
        others = [each for each in tx.clustering.bindings.using_group(group) if each.cluster_id != binding.cluster_id]
        if others:
            data = binding_data(others[0].policy, group, inherited=False)
            tx.clustering.bindings.update(replace(others[0], data=data))
            return None
        self.groups.delete_in(tx, actor, group)
        return group

    def _one(self, tx: Transaction, actor: Actor, key: str) -> Group | None:
        """A group of the project, by id or name, which nobody else changes meanwhile."""
        found = tx.groups.by_id(key)
        if found is None or found.project_id != actor.project_id:
            named = tx.groups.named(actor.project_id, key)
            if len(named) > 1:
                raise Conflict(f"Failed in retrieving servergroup '{key}'.")
            found = named[0] if named else None
        if found is not None:
            tx.groups.lock([found.id])
            found = tx.groups.by_id(found.id)
        return found

    def _refuse_mismatch(self, tx: Transaction, actor: Actor, wanted: GroupTerms, group: Group) -> None:
        obfuscation = obfuscation_for(tx, self.groups.access, actor, group.project_id)
        asked = PolicyParser(tx, self.groups.access, actor, obfuscation).parse(_texts(wanted), wanted.get("rules", {}))
        if _meaning(asked) != _meaning(group.policies):
            ours, theirs = _told(asked, obfuscation), _told(group.policies, obfuscation)
            raise Conflict(f"Policies specified ({ours}) doesn't match that of the existing servergroup ({theirs}).")
        if "rules" in wanted and _limits(asked) != _limits(group.policies):
            ours, theirs = _rules(wanted["rules"]), _rules(group.rules)
            raise Conflict(f"Rules specified ({ours}) doesn't match that of the existing servergroup ({theirs}).")

    def _make(self, tx: Transaction, actor: Actor, wanted: GroupTerms, name: str) -> GroupId:
        if len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
            raise Invalid(
                f"A servergroup has a name of 1 to {_LONGEST_NAME} printable characters, with no space around them."
            )
        try:
            return self.groups.create_in(tx, actor, NewGroup(name, _texts(wanted), wanted.get("rules", {}))).id
        except (Invalid, Forbidden, OverQuota) as error:
            raise Conflict(f"Failed in creating servergroup: {error.message}") from error

    def _new_name(self) -> str:
        digits = self.new_uuid().replace("-", "")
        return f"server_group_{chr(ord('a') + int(digits[:2], 16) % 26)}{digits[2:9]}"


def _hint(profile: Profile) -> str:
    """The group that the nodes of a profile are to be in anyway; empty where it names none."""
    hints = profile.properties.get("scheduler_hints")
    group = hints.get("group") if isinstance(hints, Mapping) else None
    return "" if group is None else str(group)


def _texts(wanted: GroupTerms) -> tuple[str, ...]:
    policies = wanted["policies"]
    return (policies,) if isinstance(policies, str) else tuple(policies)


def _meaning(policies: Sequence[GroupPolicy]) -> tuple[frozenset[str], tuple[str, ...]]:
    """What must be, in no order, and what should be, in order; limits aside."""
    hard = frozenset(str(policy) for policy in policies if not policy.kind.is_soft)
    return hard, tuple(str(policy) for policy in policies if policy.kind.is_soft)


def _limits(policies: Sequence[GroupPolicy]) -> frozenset[GroupPolicy]:
    return frozenset(replace(policy, limited=False) for policy in policies)


def _told(policies: Sequence[GroupPolicy], obfuscation: Obfuscation) -> str:
    return ", ".join(str(obfuscation.obfuscate_policy(policy)) for policy in policies)


def _rules(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={limit}" for name, limit in sorted(rules.items())) or "none"
