"""Server groups, their audits and previews, as the wire has them."""

from covey.api.compute.microversions import COVEY, OWNER_SHOWN, POLICY_RULES
from covey.api.requests import Json
from covey.api.versions import Version
from covey.model.groups import Group
from covey.scheduler.violations import Violation
from covey.services.audits import Audit
from covey.services.obfuscation import Obfuscation
from covey.services.previews import Preview


def show(group: Group, version: Version) -> Json:
    """A group in the shape of the version; older ones see no more than its first policy."""
    doc: Json = {"id": group.id, "name": group.name, "members": list(group.members)}
    if version >= COVEY:
        first = str(group.policies[0]) if group.policies else ""
        doc |= {
            "policies": [str(policy) for policy in group.policies],
            "policy": {"name": first, "rules": group.rules},
            "rules": group.rules,
        }
    elif version >= POLICY_RULES:
        doc |= {"policy": str(group.policies[0]), "rules": group.rules}
    else:
        doc |= {"policies": [str(policy) for policy in group.policies[:1]], "metadata": {}}
    if version >= OWNER_SHOWN:
        doc |= {"project_id": group.project_id, "user_id": group.user_id}
    return doc


def show_audit(audit: Audit, *, violations: bool) -> Json:
    """Where each member is; with what does not hold, when that was asked for."""
    doc: Json = {
        "server_group_id": audit.group_id,
        "members": [{"instance_id": server, "placements": places} for server, places in audit.members],
    }
    if violations:
        doc["violations"] = [show_violation(violation, audit.obfuscation) for violation in audit.violations]
    return {"server_group_policy_audit": doc}


def show_violation(violation: Violation, obfuscation: Obfuscation) -> Json:
    """A policy that does not hold, with the domain as the caller knows it."""
    policy, domain = violation.policy, violation.domain
    return {
        "policy": str(obfuscation.policy(policy)),
        "scope": policy.scope.name,
        "domain": None if domain is None else obfuscation.shown(policy.scope, domain),
        "members": list(violation.members),
        "soft": violation.soft,
        "reason": violation.sentence,
    }


def show_preview(preview: Preview) -> Json:
    """Where those that fit would go, and why the rest would not."""
    return {
        "preview": {
            "server_group_id": preview.group.id,
            "count": preview.asked,
            "fits": preview.fits,
            "placements": list(preview.placements),
            "reason": preview.reason,
        }
    }


def show_headroom(preview: Preview) -> Json:
    """How many fit; `at_least` says that as many as were looked for fit, and there may be room for more."""
    return {
        "headroom": {
            "server_group_id": preview.group.id,
            "count": preview.fits,
            "at_least": preview.fits == preview.asked,
            "reason": preview.reason,
        }
    }
