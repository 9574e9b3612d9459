import msgspec

from covey.agent.guests import Guest, GuestFlavor, GuestImage, GuestKey, dump_guest

GUEST = Guest(
    id="7e3c",
    name="web-1",
    hostname="web-1",
    project_id="p1",
    user_id="u1",
    flavor=GuestFlavor("m1.tiny", 1, 512, 1),
    image=GuestImage("155d", 3, "sha512", "ab", "qcow2"),
    keys=(GuestKey("laptop", "ssh-ed25519 AAAA"),),
)


def test_guest_survives_its_document() -> None:
    assert msgspec.convert(dump_guest(GUEST), Guest) == GUEST


def test_agent_ignores_fields_of_a_newer_service() -> None:
    assert msgspec.convert(dump_guest(GUEST) | {"colour": "red"}, Guest) == GUEST
