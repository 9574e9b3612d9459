"""Guests and calls with good defaults."""

from covey.agent.guests import Guest, GuestFlavor, GuestImage
from covey.agent.service_api import Call, ExpectedServer


def a_guest(server: str = "s1", *, power: str = "running", image: GuestImage | None = None) -> Guest:
    return Guest(
        id=server,
        name=server,
        hostname=server,
        project_id="web",
        user_id="alice",
        flavor=GuestFlavor("small", 1, 512, 1),
        image=image,
        power=power,
    )


def a_call(number: int = 1, server: str = "s1", verb: str = "spawn", epoch: int = 1, **arguments: object) -> Call:
    return Call(number, verb, epoch, a_guest(server), arguments)


def expected(
    server: str = "s1", *, power: str = "running", epoch: int = 1, task: str | None = None, location: str = "here"
) -> ExpectedServer:
    return ExpectedServer(a_guest(server, power=power), epoch, task, location)
