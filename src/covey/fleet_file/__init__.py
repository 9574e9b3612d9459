"""Reads and writes the fleet file: the hosts, places, flavors and images of a cloud on one page."""

from covey.fleet_file.parse import parse
from covey.fleet_file.problems import FleetFileError, Problem
from covey.fleet_file.render import render

__all__ = ["FleetFileError", "Problem", "parse", "render"]
