"""Maximum flow by Dinic's algorithm, on a network that may start with a flow, in a limited number of steps."""

from collections import deque
from dataclasses import dataclass

SOURCE, SINK = 0, 1  # the first nodes of every network


@dataclass(slots=True)
class Budget:
    """The steps that a search may still take. Steps are counted, not timed: equal inputs stop at the same point."""

    left: int

    @property
    def spent(self) -> bool:
        return self.left <= 0


class Network:
    """Nodes, and arcs with a capacity. The number of an arc is even, and its reverse has the next number."""

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]  # by node
        self._head: list[int] = []  # by arc
        self._room: list[int] = []  # what an arc takes beyond its flow; for a reverse arc, the flow

    def add_node(self) -> int:
        """Return a new node."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def connect(self, tail: int, head: int, capacity: int, flow: int) -> int:
        """Add an arc that carries a flow already; return its number."""
        arc = len(self._head)
        self._head += (head, tail)
        self._room += (capacity - flow, flow)
        self._arcs[tail].append(arc)
        self._arcs[head].append(arc + 1)
        return arc

    def flow(self, arc: int) -> int:
        """Return what the arc carries."""
        return self._room[arc + 1]

    def augment(self, most: int, budget: Budget) -> int:
        """Increase the flow from source to sink by up to `most` and return by how much; less if the budget is spent."""
        added = 0
        while added < most and not budget.spent:
            distance = self._distances(budget)
            if distance[SINK] < 0:
                break
            added += self._fill_shortest(distance, most - added, budget)
        return added

    def _distances(self, budget: Budget) -> list[int]:
        """Return the number of arcs from the source to each node along which more can flow; -1 if there is no way."""
        distance = [-1] * len(self._arcs)
        distance[SOURCE] = 0
        queue = deque([SOURCE])
        while queue and distance[SINK] < 0:
            node = queue.popleft()
            budget.left -= len(self._arcs[node])
            for arc in self._arcs[node]:
                head = self._head[arc]
                if distance[head] < 0 and self._room[arc]:
                    distance[head] = distance[node] + 1
                    queue.append(head)
        return distance

    def _fill_shortest(self, distance: list[int], most: int, budget: Budget) -> int:
        """Send flow along shortest paths until each is blocked, up to `most`."""
        head, room, added = self._head, self._room, 0
        tried = [0] * len(self._arcs)  # arcs of each node that lead nowhere
        path: list[int] = []
        node = SOURCE
        while not budget.spent:
            budget.left -= 1
            if node == SINK:
                amount = min(most - added, *(room[arc] for arc in path))
                for arc in path:
                    room[arc] -= amount
                    room[arc ^ 1] += amount
                added += amount
                if added == most:
                    break
                blocked = next(number for number, arc in enumerate(path) if not room[arc])
                node = head[path[blocked] ^ 1]
                del path[blocked:]
            elif tried[node] < len(self._arcs[node]):
                arc = self._arcs[node][tried[node]]
                if room[arc] and distance[head[arc]] == distance[node] + 1:
                    path.append(arc)
                    node = head[arc]
                else:
                    tried[node] += 1
            elif path:
                node = head[path.pop() ^ 1]
                tried[node] += 1
            else:
                break
        return added
