"""Fencing: a command of the operator makes sure that a host runs no guests."""

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from covey.model.errors import Conflict, CoveyError, DriverFault, OperationInProgress
from covey.model.ids import HostId
from covey.ports import NewUuid
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_CHECK_S = 0.5
_GRACE_S = 10.0  # of a lease, after the command's time
_UNEXPECTED = "fence_command could not be run; the service's log has the details."


@dataclass(frozen=True, slots=True)
class Fencing:
    """Runs the command for hosts, one run of a host at a time among all processes.

    A run has a lease in the agent's row, which a registration of the agent ends. So its outcome counts only for the
    failure that it began in, whichever process asks for it.
    """

    store: Store
    new_uuid: NewUuid
    command: str
    timeout_s: float = 60.0

    def begin(self, host: HostId, name: str) -> None:
        """Run the command in a thread, which records the success, so that no worker waits for it.

        Raises OperationInProgress until then, and DriverFault once after a failure. The next call runs it again.
        """
        holder = self.new_uuid()
        with self.store.write() as tx:
            error = tx.agents.take_fencing_error(host)
            begins = error is None and tx.agents.begin_fencing(host, holder, self._lease_s, only_down=True)
        if error is not None:
            raise DriverFault(error)
        if begins:
            threading.Thread(
                target=self._run_leased, args=(host, name, holder), name="covey-fence", daemon=True
            ).start()
        raise OperationInProgress(_CHECK_S)

    @contextmanager
    def fenced(self, host: HostId, name: str) -> Iterator[Callable[[Transaction], bool]]:
        """Yield after the command has succeeded: a function that ends the lease in the caller's transaction.

        The function returns False if the agent has registered since the command began. Raises DriverFault, and Conflict
        while another process runs the command for the host.
        """
        holder = self.new_uuid()
        with self.store.write() as tx:
            begins = tx.agents.begin_fencing(host, holder, self._lease_s, only_down=False)
        if not begins:
            raise Conflict(f"fence_command runs for {name} already. Try again once it has ended.")
        try:
            self._run(name)
            yield lambda tx: tx.agents.end_fencing(host, holder)
        finally:
            with self.store.write() as tx:
                tx.agents.end_fencing(host, holder)

    @property
    def _lease_s(self) -> float:
        return self.timeout_s + _GRACE_S

    def _run_leased(self, host: HostId, name: str, holder: str) -> None:
        """Run the command and record the outcome. Without the database, the lease ends and the command runs again."""
        deadline = time.monotonic() + self._lease_s
        error: str | None = None
        try:
            self._run(name)
        except DriverFault as fault:
            error = fault.message
        except Exception:
            log.exception("host.not_fenced", host=name)
            error = _UNEXPECTED
        while time.monotonic() < deadline:
            try:
                with self.store.write() as tx:
                    if tx.agents.end_fencing(host, holder, error) and error is None:
                        tx.agents.set_fenced(host)
            except CoveyError as unavailable:
                log.warning("host.fencing_not_recorded", host=name, reason=unavailable.message)
                time.sleep(_CHECK_S)
            else:
                return

    def _run(self, name: str) -> None:
        """Raises DriverFault unless the command succeeds in time."""
        try:
            ended = subprocess.run(  # noqa: S603 -- the operator's command
                [*shlex.split(self.command), name], stdin=subprocess.DEVNULL, timeout=self.timeout_s, check=False
            )
        except (OSError, ValueError) as error:
            raise DriverFault(f"fence_command cannot run: {error}.") from error
        except subprocess.TimeoutExpired as error:
            raise DriverFault(f"fence_command did not end within {self.timeout_s:g} seconds for {name}.") from error
        if ended.returncode != 0:
            raise DriverFault(f"fence_command failed with status {ended.returncode} for {name}.")
        log.info("host.fenced", host=name)
