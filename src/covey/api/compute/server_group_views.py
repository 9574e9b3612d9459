"""Server groups, their audits and previews, as JSON."""

from covey.api.compute.microversions import COVEY, OWNER_SHOWN, POLICY_RULES
from covey.api.requests import Json
from covey.api.versions import Version
from covey.model.groups import Group, rules_of
from covey.scheduler.violations import Violation
from covey.services.audits import Audit
from covey.services.obfuscation import Obfuscation
from covey.services.previews import Preview


def show(group: Group, version: Version) -> Json:
    """Return a group in the form of the version; versions before Covey's show only its first policy."""
    doc: Json = {"id": group.id, "name": group.name, "members": list(group.members)}
    if version >= COVEY:
        first = group.policies[:1]
        doc |= {
            "policies": [str(policy) for policy in group.policies],
            "policy": {"name": "".join(map(str, first)), "rules": rules_of(first)},
            "rules": group.rules,
        }
    elif version >= POLICY_RULES:
        doc |= {"policy": str(group.policies[0]), "rules": rules_of(group.policies[:1])}
    else:
        doc |= {"policies": [str(policy) for policy in group.policies[:1]], "metadata": {}}
    if version >= OWNER_SHOWN:
        doc |= {"project_id": group.project_id, "user_id": group.user_id}
    return doc


def show_audit(audit: Audit, *, violations: bool) -> Json:
    """Return the placement of each member and, on request, the policy violations."""
    doc: Json = {
        "server_group_id": audit.group_id,
        "members": [{"instance_id": server, "placements": places} for server, places in audit.members],
    }
    if violations:
        doc["violations"] = [show_violation(violation, audit.obfuscation) for violation in audit.violations]
    return {"server_group_policy_audit": doc}


def show_violation(violation: Violation, obfuscation: Obfuscation) -> Json:
    """Return a policy violation, with the domain identifier that the caller may see."""
    policy, domain = violation.policy, violation.domain
    return {
        "policy": str(obfuscation.obfuscate_policy(policy)),
        "scope": policy.scope.name,
        "domain": None if domain is None else obfuscation.display_identifier(policy.scope, domain),
        "members": list(violation.members),
        "soft": violation.soft,
        "reason": violation.sentence,
    }


def show_preview(preview: Preview) -> Json:
    """Return the placements of the servers that fit, and why the others do not."""
    return {
        "preview": {
            "server_group_id": preview.group.id,
            "count": preview.requested,
            "fits": preview.fits,
            "placements": list(preview.placements),
            "reason": preview.reason,
        }
    }


def show_headroom(preview: Preview) -> Json:
    """Return how many servers fit; `at_least` means that more may fit."""
    return {
        "headroom": {
            "server_group_id": preview.group.id,
            "count": preview.fits,
            "at_least": preview.at_least,
            "reason": preview.reason,
        }
    }
