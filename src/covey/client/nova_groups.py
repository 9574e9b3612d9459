"""One server group in two services: Nova has its members, Covey its policies, under one uuid."""

from collections.abc import Mapping, Sequence

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from osc_lib.exceptions import CommandError

from covey.client.api import Api, Json

URL = "os-server-groups"
HARD = ("affinity", "anti-affinity")
_LIMIT = "max_server_per_host"
_RULES_NO_HOST_OUT = "soft-anti-affinity"


def create(api: Api, name: str, policies: Sequence[str], rules: Mapping[str, str]) -> Json:
    """Create a group in Nova, then its policies in Covey, and return Covey's document.

    Raises CommandError after it has deleted the group in Nova, if Covey does not accept the policies.
    """
    of_nova = nova_policy(policies, rules)
    group = api.nova("POST", URL, json={"server_group": {"name": name} | of_nova})["server_group"]
    try:
        body = {"server_group": {"policies": list(policies), "rules": dict(rules)}}
        document: Json = api.put(URL, group["id"], body=body)["server_group"]
    except (CommandError, SDKException, ClientException, KeyboardInterrupt) as error:
        reason = str(error) or "Interrupted."
        raise CommandError(f"{reason}\n{_undo(api, group['id'], of_nova['policy'])}") from error
    return document


def nova_policy(policies: Sequence[str], rules: Mapping[str, str]) -> Json:
    """Return the policy of Nova's group: one that rules no host out, unless Covey's policies have it on hosts."""
    on_hosts = [kind for kind, *rest in (policy.split(":") for policy in policies) if rest in ([], ["host"])]
    hard = next((kind for kind in on_hosts if kind in HARD), None)
    if hard is None:
        return {"policy": next(iter(on_hosts), _RULES_NO_HOST_OUT)}
    limit = {_LIMIT: rules[_LIMIT]} if hard == "anti-affinity" and _LIMIT in rules else {}
    return {"policy": hard} | ({"rules": limit} if limit else {})


def stricter_policy(api: Api, group: Json) -> str | None:
    """Return the hard policy that Nova holds a group to although Covey's policies do not have it, if any.

    Nova cannot change a group's policy.
    """
    of_nova = api.nova("GET", URL, group["id"])["server_group"]
    policy, limit = of_nova["policy"], of_nova["rules"].get(_LIMIT, 1)
    if policy not in HARD or (policy in group["policies"] and limit == group["rules"].get(_LIMIT, 1)):
        return None
    return f"{policy} with {_LIMIT}={limit}" if policy == "anti-affinity" else str(policy)


def _undo(api: Api, group: str, policy: str) -> str:
    """Delete a group in Nova, and return a sentence on the outcome."""
    try:
        api.nova("DELETE", URL, group)
    except (CommandError, SDKException, ClientException) as error:
        return (
            f"The server group {group} remains in Nova, with the policy {policy}: {error}\n"
            f"Set its policies with `openstack server group set {group}`, or delete it."
        )
    return "No server group was created: the one in Nova is deleted again."
