"""How an instance of Nova is shown: its group, and why policies refused it."""

from covey.api.requests import Json
from covey.api.times import seconds
from covey.services.instances import Instance


def show_instance(instance: Instance) -> Json:
    """Return the placement of an instance; operators see its compute nodes, two of them while it moves."""
    refusal = instance.refusal
    return {
        "server_id": instance.id,
        "group": instance.group,
        "placed": instance.is_placed,
        "refused": None if refusal is None else refusal.message,
        "refused_at": None if refusal is None else seconds(refusal.at),
        "reasons": [] if refusal is None else [{"reason": words, "hosts": hosts} for words, hosts in refusal.reasons],
        **({"hosts": list(instance.hosts)} if instance.hosts else {}),
    }
