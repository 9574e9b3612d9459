"""Observes and changes the guests of simulated hosts from outside, as a power failure or a crash does."""

from covey.agent.simulated_world import World


def running(world: World) -> dict[str, list[str]]:
    """Return the hosts on which each guest runs."""
    found: dict[str, list[str]] = {}
    for row in world.read("SELECT server, host FROM guests WHERE power = 'running' ORDER BY host"):
        found.setdefault(row["server"], []).append(row["host"])
    return found


def power_off(world: World, host: str) -> None:
    """Cut the power of a host: its guests end, their definitions and disks remain."""
    with world.transaction() as connection:
        connection.execute("UPDATE guests SET power = 'shutdown' WHERE host = ?", (host,))


def set_power(world: World, server: str, power: str) -> None:
    """Set a guest's power state, as if it had ended or crashed."""
    with world.transaction() as connection:
        connection.execute("UPDATE guests SET power = ? WHERE server = ?", (power, server))
