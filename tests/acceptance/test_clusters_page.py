"""The commands of the page about clusters do what the page says, one after another."""

import re
import subprocess
from pathlib import Path

from tests.acceptance.clustering_client import clustering
from tests.acceptance.conftest import Demo
from tests.acceptance.pages import Block, blocks_of
from tests.acceptance.processes import Session
from tests.acceptance.storm import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clusters.md"
ACTION = re.compile(r"action:? ([0-9a-f-]{36})")
FINAL_STATUSES = {"SUCCEEDED", "FAILED", "CANCELLED"}


def test_commands_of_the_clusters_page_work_as_shown(demo: Demo, tmp_path: Path) -> None:
    files, growth, changes, refusal = blocks_of(PAGE, {})
    *others, last = changes.text.splitlines()
    with Session(clustering(demo.cloud("demo"))) as session:
        run(session, files.text, tmp_path)
        run(session, growth.text, tmp_path)
        assert [row["status"] for row in session.json("cluster members list shop")] == ["ACTIVE"] * 8
        run_failing_action(session, refusal)
        run(session, "\n".join(others), tmp_path)
        assert session.json("cluster show shop")["status"] == "ACTIVE"
        assert len(session.json("cluster members list shop")) == 6
        run(session, last, tmp_path)
        assert "shop" not in {row["name"] for row in session.json("cluster list")}


def run(session: Session, text: str, directory: Path) -> None:
    """Run `openstack` commands in one client, and other commands in a shell, which creates the named files."""
    commands = [line for line in text.splitlines() if line.startswith("openstack ")]
    rest = "\n".join(line for line in text.splitlines() if line not in commands)
    subprocess.run(["sh", "-e", "-c", rest], cwd=directory, check=True)
    for command in commands:
        wanted = command.removeprefix("openstack ").replace("--spec-file ", f"--spec-file {directory}/")
        wait(session, session.text(wanted.replace(" --wait", "")))


def run_failing_action(session: Session, refusal: Block) -> None:
    """Run an accepted request whose action fails as the page shows; ids differ from the page."""
    (grow, accepted), (look, ended) = refusal.commands
    output = session.text(grow.removeprefix("openstack "))
    there, here = ACTION.findall(accepted[0] + output)
    assert output.split() == accepted[0].replace(there, here).split()
    wait(session, output)
    shown = session.text(look.removeprefix("openstack ").replace(there[:8], here))
    assert shown.split() == " ".join(ended).split()


def wait(session: Session, output: str) -> None:
    """Wait until an action is finished; the client's own --wait polls every few seconds only."""
    found = ACTION.search(output)
    if found is not None:
        wait_until(lambda: session.json(f"cluster action show {found[1]}")["status"] in FINAL_STATUSES, output)
    elif "desired_capacity" in output:
        wait_until(lambda: session.json("cluster show shop")["status"] == "ACTIVE", output)
